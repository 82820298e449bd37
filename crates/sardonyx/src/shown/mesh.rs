//! The mesh as one of its members sees it.

use sardonyx_mesh::Report;
use serde_json::{Value, json};

/// A report for people and programs: addresses as text, large numbers as text.
pub fn mesh(report: &Report) -> Value {
    let leader = report.leader.as_ref().map(|claim| {
        json!({
            "address": claim.leader.address, "incarnation": claim.leader.incarnation.0,
            "version": claim.version.0, "certified": claim.certified, "quality": report.quality,
        })
    });
    let members = report.members.iter().map(|row| {
        json!({
            "address": row.node.address, "incarnation": row.node.incarnation.0, "name": row.name,
            "seed": row.is_seed, "observer": row.is_observer, "status": row.status,
            "votes": report.voters.contains(&row.node.address),
        })
    });
    let suspicions = report.suspicions.iter().map(|it| {
        json!({
            "observer": it.observer.address, "suspect": it.suspect.address,
            "reason": it.reason.to_string(),
        })
    });
    let token = report.token.as_ref().map(|it| {
        json!({ "cluster": it.cluster.to_string(), "version": it.version.0,
            "valid-until-micros": it.valid_until.0 })
    });
    json!({
        "node": { "address": report.node.address, "incarnation": report.node.incarnation.0 },
        "name": report.name, "phase": report.phase,
        "cluster": report.cluster.map(|it| it.to_string()), "leader": leader,
        "version": report.version.0, "established": report.established.0, "seq": report.seq,
        "digest": format!("{:016x}", report.digest), "members": members.collect::<Vec<_>>(),
        "voters": report.voters, "voting": report.voting.as_ref().err(),
        "suspicions": suspicions.collect::<Vec<_>>(), "token": token,
    })
}
