//! The cluster once it is calm: one ring of exactly the living, everybody with the same cluster, every
//! job over, and nobody ended in a way that nobody may.

use std::collections::BTreeMap;

use sardonyx_core::{Replica, replica::job::JobOutcome};

/// Members are exactly the peers of those lives that there are, each with so many.
pub fn ring(replica: &Replica, living: &BTreeMap<String, usize>) -> Vec<String> {
    let mut broken = Vec::new();
    let mut n_of: BTreeMap<&str, usize> = BTreeMap::new();
    for peer in replica.peers() {
        let life = peer.as_str().split_once('-').map_or(peer.as_str(), |(life, _)| life);
        match living.get_key_value(life) {
            Some((life, _)) => *n_of.entry(life).or_default() += 1,
            None => broken.push(format!("{peer} is a member and does not live")),
        }
    }
    for (life, wanted) in living {
        let n = n_of.get(life.as_str()).copied().unwrap_or_default();
        if n != *wanted {
            broken.push(format!("{n} of {wanted} peers of {life} are members"));
        }
    }
    let joining = replica.n_present() - replica.n_peers();
    if joining > 0 {
        broken.push(format!("{joining} are still joining"));
    }
    broken
}

/// What the mesh is to one of its nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeshView {
    /// Whom it follows, and in which version.
    pub leader: Option<String>,
    /// The digest of its table of members.
    pub table: String,
}

/// So many nodes say whom they follow, and all follow the same with the same table.
pub fn mesh(views: &BTreeMap<usize, MeshView>, n_nodes: usize) -> Vec<String> {
    let mut broken = Vec::new();
    if views.len() < n_nodes {
        broken.push(format!("{} of {n_nodes} nodes say what the mesh is", views.len()));
    }
    let first = views.first_key_value();
    for (node, view) in views {
        match &view.leader {
            None => broken.push(format!("node {node} follows nobody")),
            Some(leader) => {
                if let Some((other, its)) = first.filter(|(_, its)| *its != view) {
                    broken.push(format!(
                        "node {node} follows {leader} with the table {}, node {other} has {its:?}",
                        view.table
                    ));
                }
            }
        }
    }
    broken
}

/// What each node says the cluster is at one position is what the log comes to there.
pub fn agree(wanted: &Replica, said: &[(String, Result<Replica, String>)]) -> Vec<String> {
    let mut broken = Vec::new();
    for (who, replica) in said {
        match replica {
            Ok(replica) if replica == wanted => {}
            Ok(_) => broken.push(format!("{who} has another cluster than the log comes to")),
            Err(why) => broken.push(format!("{who} does not say what the cluster is: {why}")),
        }
    }
    broken
}

/// Every job has ended as it must.
pub fn jobs(ended: &[(String, Option<JobOutcome>, JobOutcome)]) -> Vec<String> {
    let wrong = ended.iter().filter(|(_, outcome, wanted)| *outcome != Some(*wanted));
    wrong
        .map(|(job, outcome, wanted)| match outcome {
            Some(outcome) => format!("{job} is {outcome:?}, not {wanted:?}"),
            None => format!("{job} has not ended"),
        })
        .collect()
}

/// Who ended by itself in a way that nobody may. With code 0 or 1 one may (the world did not play along),
/// where something goes wrong all the time; on an ordinary day nobody may: who begins anew has forgotten
/// how large it was. Never: what was given is wrong (2), two nodes computed different clusters (3), it
/// panicked (101), or a signal that is none of ours ended it (no code).
pub fn exits(exits: &[(String, Option<i64>)], is_ordinary: bool) -> Vec<String> {
    let may = |code: &Option<i64>| !is_ordinary && matches!(code, Some(0 | 1));
    let wrong = exits.iter().filter(|(_, code)| !may(code));
    wrong
        .map(|(who, code)| match code {
            Some(code) => format!("{who} ended with code {code}"),
            None => format!("a signal ended {who}"),
        })
        .collect()
}

/// Panics in what processes said: who, and all of it. A task that panics ends without its process, and
/// what it was for may be done by somebody else: nothing else would show.
pub fn panics<'a>(said: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let lines = said.into_iter().flat_map(|(who, text)| text.lines().map(move |line| (who, line)));
    let panics = lines.filter(|(_, line)| line.contains("panicked at"));
    panics.map(|(who, line)| format!("{who}: {}", line.trim())).collect()
}

#[cfg(test)]
mod tests {
    use sardonyx_core::wire;

    use super::*;

    fn cluster(peers: &[&str]) -> Replica {
        let pairs: BTreeMap<_, _> = (0..peers.len())
            .filter(|_| peers.len() > 1)
            .map(|index| (peers[index], peers[(index + 1) % peers.len()]))
            .collect();
        let text = serde_json::json!({"peers": peers, "pairs": pairs}).to_string();
        wire::replica_from_json(&text).expect("a replica")
    }

    fn living(lives: &[(&str, usize)]) -> BTreeMap<String, usize> {
        lives.iter().map(|(life, n)| ((*life).to_owned(), *n)).collect()
    }

    #[test]
    fn a_ring_of_the_living_is_well() {
        let both = living(&[("x", 2), ("y", 1)]);
        assert_eq!(ring(&cluster(&["x-1", "y-1", "x-2"]), &both), [""; 0]);
    }

    #[test]
    fn the_dead_and_the_missing_are_found() {
        let both = living(&[("x", 2), ("y", 1)]);
        assert_eq!(ring(&cluster(&["x-1", "y-1"]), &both).len(), 1);
        assert_eq!(ring(&cluster(&["x-1", "y-1", "x-2", "z-1"]), &both).len(), 1);
        assert_eq!(ring(&Replica::new(), &both).len(), 2);
    }

    #[test]
    fn a_node_with_another_cluster_is_found() {
        let wanted = cluster(&["a", "b"]);
        let said = |replica| vec![("node0".to_owned(), replica)];
        assert_eq!(agree(&wanted, &said(Ok(wanted.clone()))), [""; 0]);
        assert_eq!(agree(&wanted, &said(Ok(cluster(&["b", "a"])))).len(), 1);
        assert_eq!(agree(&wanted, &said(Err("silence".into()))).len(), 1);
    }

    #[test]
    fn a_mesh_of_two_minds_is_found() {
        let view = |leader: &str, table: &str| MeshView {
            leader: Some(leader.into()),
            table: table.into(),
        };
        let views = |second| BTreeMap::from([(0, view("a 7", "t")), (1, second)]);
        assert_eq!(mesh(&views(view("a 7", "t")), 2), [""; 0]);
        for other in [view("b 7", "t"), view("a 8", "t"), view("a 7", "u")] {
            assert_eq!(mesh(&views(other), 2).len(), 1);
        }
        let nobody = MeshView { leader: None, table: "t".into() };
        assert_eq!(mesh(&views(nobody), 2).len(), 1);
        assert_eq!(mesh(&views(view("a 7", "t")), 3).len(), 1, "one is silent");
    }

    #[test]
    fn jobs_that_did_not_end_as_they_must_are_found() {
        let is = |outcome| vec![("j".to_owned(), outcome, JobOutcome::Completed)];
        assert_eq!(jobs(&is(Some(JobOutcome::Completed))), [""; 0]);
        assert_eq!(jobs(&is(Some(JobOutcome::Killed))).len(), 1);
        assert_eq!(jobs(&is(None)).len(), 1);
    }

    #[test]
    fn ends_that_must_not_be_are_found() {
        let ended = |code| vec![("node1".to_owned(), code)];
        for code in [0, 1] {
            assert_eq!(exits(&ended(Some(code)), false), [""; 0]);
            assert_eq!(exits(&ended(Some(code)), true).len(), 1, "on an ordinary day");
        }
        for code in [Some(2), Some(3), Some(101), None] {
            assert_eq!(exits(&ended(code), false).len(), 1);
        }
    }

    #[test]
    fn a_panic_that_its_process_survived_is_found() {
        let text = "a line\nthread 'tokio-rt-worker' panicked at src/desk.rs:1:2:\nno such thing\n";
        assert_eq!(panics([("node0", "all is well"), ("node1", text)]).len(), 1);
        assert_eq!(panics([("node0", "")]), [""; 0]);
    }
}
