//! Switching on etcd's users, for the suite: what `etcdctl auth enable` and its kin ask.

use prost::Message;

use super::{
    proto::{RangeRequest, RangeResponse, end_of, range},
    rpc::{RANGE, Rpc},
};
use crate::{
    error::{Error, Result},
    location::Location,
};

/// Whether what was so at `revision` can still be read.
pub(crate) async fn remembers(url: &str, revision: i64) -> Result<bool> {
    let Location::Etcd(servers) = Location::parse(url)? else { return Ok(false) };
    let past = RangeRequest { revision, ..range("any") };
    match Rpc::new(&servers)?.call::<_, RangeResponse>(RANGE, past).await {
        Err(Error::Unavailable(why)) if why.contains("has been compacted") => Ok(false),
        read => read.map(|_| true),
    }
}

const USER_ADD: &str = "/etcdserverpb.Auth/UserAdd";
const ROLE_ADD: &str = "/etcdserverpb.Auth/RoleAdd";
const ROLE_GRANT: &str = "/etcdserverpb.Auth/RoleGrantPermission";
const USER_GRANT: &str = "/etcdserverpb.Auth/UserGrantRole";
const ENABLE: &str = "/etcdserverpb.Auth/AuthEnable";

/// A user or a role: the password is field 2 of a user's, and absent from a role's.
#[derive(Clone, PartialEq, Message)]
struct Add {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    password: String,
}

#[derive(Clone, PartialEq, Message)]
struct UserGrant {
    #[prost(string, tag = "1")]
    user: String,
    #[prost(string, tag = "2")]
    role: String,
}

#[derive(Clone, PartialEq, Message)]
struct RoleGrant {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    permission: Option<Permission>,
}

#[derive(Clone, PartialEq, Message)]
struct Permission {
    /// 2: to read and to write.
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Empty {}

/// Makes users `users` with one password, gives the first of them the store `name` and nothing
/// else, and lets nobody in without a user from then on.
pub(crate) async fn protect(url: &str, name: &str, users: &[&str], password: &str) -> Result<()> {
    let Location::Etcd(servers) = Location::parse(url)? else {
        return Err(Error::NotConfigured("this is not etcd".into()));
    };
    let rpc = Rpc::new(&servers)?;
    let add = |name: &str, password: &str| Add { name: name.into(), password: password.into() };
    let grant = |user: &str, role: &str| UserGrant { user: user.into(), role: role.into() };
    for role in ["root", name] {
        let _: Empty = rpc.call(ROLE_ADD, add(role, "")).await?;
    }
    let key = format!("sardonyx/{name}/");
    let permission = Permission { kind: 2, range_end: end_of(&key), key: key.into() };
    let permission = RoleGrant { name: name.into(), permission: Some(permission) };
    let _: Empty = rpc.call(ROLE_GRANT, permission).await?;
    for user in users.iter().chain(&["root"]) {
        let _: Empty = rpc.call(USER_ADD, add(user, password)).await?;
    }
    let _: Empty = rpc.call(USER_GRANT, grant("root", "root")).await?;
    if let Some(user) = users.first() {
        let _: Empty = rpc.call(USER_GRANT, grant(user, name)).await?;
    }
    rpc.call::<_, Empty>(ENABLE, Empty {}).await.map(drop)
}
