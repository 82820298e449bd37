//! Servers that do not let everybody in: TLS, users and passwords, on real servers.

use std::{path::Path, time::Duration};

use sardonyx_store::{
    Error, Options, Store,
    suite::{
        Arena, a_cell_has_one_winner, a_pulse_ends_with_its_owner,
        a_trimmed_reader_takes_the_origin, all_readers_see_one_order, an_old_holder_cannot_write,
        nothing_is_lost_or_doubled_across_reconnects, run,
        servers::{Certificates, Ensemble, EtcdCluster, EtcdServer},
    },
};

const PASSWORD: &str = "correct-horse";

/// Long enough for a busy machine; wrong passwords and certificates are not tried again.
const OPTIONS: Options = Options { patience: Duration::from_secs(20) };

/// Opens a store that must not open, and checks that the one line about it keeps the secret.
async fn refusal(url: &str, secret: &str) -> String {
    let opened = Store::open(url, OPTIONS).await;
    // What programs log: the handle, the error, and both in full.
    let debug = format!("{opened:?}");
    assert!(!debug.contains(secret), "the secret is shown: {debug}");
    let Err(why) = opened else { panic!("{url} opens") };
    assert!(matches!(why, Error::NotConfigured(_)), "somebody has to change something: {why:?}");
    let why = why.to_string();
    assert!(!why.contains('\n') && !why.contains(secret), "{why}");
    why
}

async fn etcd_behind_tls(dir: &Path) -> EtcdCluster {
    let tls = Some(Certificates::make(dir));
    Ensemble::start_as(EtcdServer { tls, program: None }, 1, None).await
}

/// `etcd://HOST…` for somebody.
fn of_user(url: &str, user_info: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap();
    format!("{scheme}://{user_info}@{rest}")
}

#[test]
fn etcd_with_tls_and_a_user_keeps_the_contract() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let cluster = etcd_behind_tls(dir.path()).await;
        cluster.protect("suite", &["me", "stranger"], PASSWORD).await;
        let file = dir.path().join("password");
        std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
        let url = of_user(&cluster.url("suite"), "me");
        let url = format!("{url}&password-file={}", file.display());
        let arena = Arena::on(cluster).with_url(url);
        let store = arena.open().await;
        assert!(!format!("{store:?}").contains(PASSWORD));
        all_readers_see_one_order(&arena).await;
        a_cell_has_one_winner(&arena).await;
        an_old_holder_cannot_write(&arena).await;
        a_pulse_ends_with_its_owner(&arena).await;
        a_trimmed_reader_takes_the_origin(&arena).await;
    });
}

/// A restart forgets who was logged in: the clients log in again.
#[test]
fn etcd_with_tls_and_a_user_is_restarted() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let cluster = etcd_behind_tls(dir.path()).await;
        cluster.protect("suite", &["me"], PASSWORD).await;
        let url = of_user(&cluster.url("suite"), &format!("me:{PASSWORD}"));
        nothing_is_lost_or_doubled_across_reconnects(&Arena::on(cluster).with_url(url)).await;
    });
}

#[test]
fn etcd_says_what_is_wrong_with_who_we_are() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let cluster = etcd_behind_tls(dir.path()).await;
        let url = cluster.url("suite");
        let why = refusal(&of_user(&url, "me:correct-horse"), PASSWORD).await;
        assert!(why.contains("leave the user out"), "no users yet: {why}");
        cluster.protect("suite", &["me", "stranger"], PASSWORD).await;
        let why = refusal(&of_user(&url, "me:wrong-horse"), "wrong-horse").await;
        assert!(why.contains("check the user and the password"), "{why}");
        let why = refusal(&of_user(&url, "nobody:correct-horse"), PASSWORD).await;
        assert!(why.contains("check the user and the password"), "{why}");
        let why = refusal(&of_user(&url, "stranger:correct-horse"), PASSWORD).await;
        assert!(why.contains("give the user a role"), "{why}");
        let why = refusal(&url, PASSWORD).await;
        assert!(why.contains("user"), "nobody comes in without a name: {why}");
        Store::open(&of_user(&url, "me:correct-horse"), OPTIONS).await.unwrap();
    });
}

#[test]
fn etcd_says_what_is_wrong_with_a_certificate() {
    run(async {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cluster = etcd_behind_tls(dir.path()).await;
        let url = cluster.url("suite");
        Store::open(&url, OPTIONS).await.unwrap();
        let (bare, _) = url.split_once('?').unwrap();
        let strange = Certificates::make(elsewhere.path());
        let ours = dir.path().display();
        for (what, options) in [
            ("servers of another authority", strange.options()),
            ("no certificate of ours", format!("?ca={ours}/ca.pem")),
            ("a certificate of another authority", {
                let (cert, key) = (strange.client.0.display(), strange.client.1.display());
                format!("?ca={ours}/ca.pem&cert={cert}&key={key}")
            }),
        ] {
            let why = refusal(&format!("{bare}{options}"), "PRIVATE KEY").await;
            assert!(why.contains("check ca, cert and key"), "{what}: {why}");
        }
        let why = refusal(&format!("{bare}?tls=true"), "PRIVATE KEY").await;
        assert!(why.contains("needs ca=FILE"), "{why}");
        let why = refusal(&format!("{bare}?ca=/nowhere/ca.pem"), "PRIVATE KEY").await;
        assert!(why.contains("/nowhere/ca.pem"), "{why}");
    });
}

#[test]
fn zookeeper_with_a_user_keeps_the_contract_and_strangers_out() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, PASSWORD).unwrap();
        let arena = Arena::zookeeper(1).await;
        let bare = arena.url_for_others().unwrap().replace("/suite", "/private");
        let url = format!("{}?password-file={}", of_user(&bare, "me"), file.display());
        let arena = arena.with_url(url);
        let store = arena.open().await;
        assert!(!format!("{store:?}").contains(PASSWORD));
        all_readers_see_one_order(&arena).await;
        an_old_holder_cannot_write(&arena).await;
        a_pulse_ends_with_its_owner(&arena).await;
        for (url, secret) in [
            (of_user(&bare, "me:wrong-horse"), "wrong-horse"),
            (of_user(&bare, "somebody:correct-horse"), PASSWORD),
            (bare, PASSWORD),
        ] {
            let why = refusal(&url, secret).await;
            assert!(why.contains("check the user and the password"), "{why}");
        }
    });
}
