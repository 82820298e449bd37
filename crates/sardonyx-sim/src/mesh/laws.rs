//! What must hold after every step, by the names of the design: I1 to I5 and I8.
//!
//! I6 is judged when it is calm ([`super::storm`]); I7 and I9 are about connections and users'
//! events, which the machine does not have.

use std::collections::BTreeMap;

use sardonyx_mesh::{
    Change, Claim, ClusterId, Kept, Member, NodeId, Phase, Reason, Status, Version, kept::Recovery,
};

/// What was seen so far, to hold the next step against.
#[derive(Clone, Debug, Default)]
pub struct Laws {
    elected: BTreeMap<(ClusterId, Version), NodeId>,
    tables: BTreeMap<(NodeId, Version, u64), u64>,
}

/// A law, and how it was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    /// Its name.
    pub law: &'static str,
    /// What was seen.
    pub what: String,
}

fn broken(law: &'static str, what: String) -> Result<(), Broken> {
    Err(Broken { law, what })
}

impl Laws {
    /// Checks one member after its step.
    pub fn check(&mut self, member: &Member) -> Result<(), Broken> {
        self.one_leader_per_version(member)?;
        self.equal_names_equal_tables(member)?;
        knows_no_successor(member)
    }

    /// I1: at most one leader of a version was ever elected, over all restarts.
    fn one_leader_per_version(&mut self, member: &Member) -> Result<(), Broken> {
        let Some(certificate) = &member.kept().certificate else { return Ok(()) };
        let name = (certificate.value.cluster, certificate.version);
        let leader = &certificate.value.candidate;
        let known = self.elected.entry(name).or_insert_with(|| leader.clone());
        if known != leader {
            let version = certificate.version;
            return broken("I1", format!("{known} and {leader} were both elected for {version}"));
        }
        Ok(())
    }

    /// I4 and I5: a table has its name from the leader that made it, and two tables with the same
    /// name and number are equal.
    fn equal_names_equal_tables(&mut self, member: &Member) -> Result<(), Broken> {
        let Some((leader, version)) = member.table_name() else { return Ok(()) };
        let seq = member.table().seq;
        let name = (leader.clone(), *version, seq);
        let claim =
            sardonyx_mesh::Claim { leader: leader.clone(), version: *version, certified: true };
        let digest = member.table().digest(Some(&claim));
        let is_own = leader == member.node();
        match self.tables.get(&name) {
            Some(known) if *known == digest => Ok(()),
            Some(_) => broken("I5", format!("two tables of {leader} {version} at step {seq}")),
            // A leader may take several steps at once; only the last of them is seen here.
            None if is_own => {
                self.tables.insert(name, digest);
                Ok(())
            }
            None => {
                let first = (leader.clone(), *version, 0);
                let last = (leader.clone(), *version, u64::MAX);
                let newest = self.tables.range(first..=last).next_back();
                match newest {
                    Some(((_, _, issued), _)) if *issued > seq => {
                        self.tables.insert(name, digest);
                        Ok(())
                    }
                    Some(_) | None => broken(
                        "I4",
                        format!(
                            "{} has step {seq} of {leader} {version}, which was not made",
                            member.node()
                        ),
                    ),
                }
            }
        }
    }

    /// How many elections there were.
    pub fn n_elected(&self) -> usize {
        self.elected.len()
    }
}

/// I4: who knows that a later version is established does not lead an earlier one.
fn knows_no_successor(member: &Member) -> Result<(), Broken> {
    let Some(claim) = member.claim() else { return Ok(()) };
    if member.phase() != Phase::Leader {
        return Ok(());
    }
    let established = member.kept().established;
    let is_over = established > claim.version || (established == claim.version && !claim.certified);
    match is_over {
        true => broken("I4", format!("{claim} still leads and knows that {established} is")),
        false => Ok(()),
    }
}

/// I4: nobody who follows an elected leader gives it up for one that nobody elected.
pub fn yields_only_to_better(before: Option<&Claim>, changes: &[Change]) -> Result<(), Broken> {
    for change in changes {
        if let Change::ViewReset { reason: Reason::Relieved { by: Some(winner) } } = change
            && let Some(loser) = before.filter(|it| it.certified && !winner.certified)
        {
            return broken("I4", format!("{loser} gives way to {winner}"));
        }
    }
    Ok(())
}

/// I2: what is on a disk never goes back.
pub fn never_goes_back(before: &Kept, after: &Kept) -> Result<(), Broken> {
    if after.established < before.established {
        let (old, new) = (before.established, after.established);
        return broken("I2", format!("established went from {old} to {new}"));
    }
    for (version, old) in before.votes.range(after.established.next()..) {
        let new = after.votes.get(version).cloned().unwrap_or_default();
        if new.promised < old.promised {
            return broken("I2", format!("a promise for {version} was forgotten"));
        }
        let accepted =
            |it: &sardonyx_mesh::vote::Acceptor| it.accepted.as_ref().map(|it| it.0.clone());
        if accepted(&new) < accepted(old) {
            return broken("I2", format!("a vote for {version} was forgotten"));
        }
    }
    if before.recovery != Recovery::Intact
        && after.recovery == Recovery::Intact
        && after.established <= before.established
    {
        return broken("I2", "votes again before anything new was established".to_owned());
    }
    Ok(())
}

/// I8: of every member the user sees a legal walk, which begins anew only after a reset.
pub fn walk(walks: &mut BTreeMap<NodeId, Status>, change: &Change) -> Result<(), Broken> {
    match change {
        Change::ViewReset { .. } => walks.clear(),
        Change::Member { from, row, .. } => {
            let known = walks.get(&row.node).copied();
            let is_legal = known == *from && Status::may_follow(known, row.status);
            if !is_legal {
                let (node, status) = (&row.node, row.status);
                return broken("I8", format!("{node}: known {known:?}, told {from:?} to {status}"));
            }
            match row.status {
                Status::Removed => walks.remove(&row.node),
                Status::Joining | Status::Active | Status::Unreachable | Status::Leaving => {
                    walks.insert(row.node.clone(), row.status)
                }
            };
        }
        Change::Leader { .. } | Change::Lease { .. } | Change::Stopped | Change::Warning(_) => {}
    }
    Ok(())
}
