//! The cards that a node has of others. Pure: members, cards and time come in, the list goes out.

use std::{collections::BTreeMap, time::Duration};

use sardonyx_mesh::{Address, Incarnation, NodeId, Row, Status};

use super::{Load, NodeCard};

/// Everybody's card but our own, as they were last shown.
#[derive(Debug, Default)]
pub(super) struct Cards {
    kept: BTreeMap<Address, Kept>,
}

/// What is known of one member.
#[derive(Debug)]
struct Kept {
    incarnation: Incarnation,
    /// Which card it has now, as it says itself.
    edition: u64,
    /// The one that we have, and which that is.
    card: Option<(u64, NodeCard)>,
    load: Load,
    at: Duration,
}

impl Cards {
    /// A member has said how it is. An older process at the same address is not listened to.
    pub(super) fn note_sign(&mut self, from: &NodeId, edition: u64, load: Load, now: Duration) {
        let new = || Kept { incarnation: from.incarnation, edition, card: None, load, at: now };
        let kept = self.kept.entry(from.address.clone()).or_insert_with(new);
        if kept.incarnation < from.incarnation {
            *kept = new();
        }
        if kept.incarnation == from.incarnation {
            (kept.edition, kept.load, kept.at) = (edition, load, now);
        }
    }

    /// A member has shown its card.
    pub(super) fn note_card(&mut self, from: &NodeId, edition: u64, card: NodeCard, now: Duration) {
        self.note_sign(from, edition, card.load, now);
        if let Some(kept) = self.kept.get_mut(&from.address)
            && kept.incarnation == from.incarnation
        {
            let card = NodeCard { address: Some(from.address.clone()), ..card };
            kept.card = Some((edition, card.bounded().lasting()));
        }
    }

    /// Forgets those who are not in the table any more, so that this is no longer than the table.
    pub(super) fn keep_only(&mut self, members: &[Row]) {
        let is_in = |address: &Address| members.iter().any(|row| row.node.address == *address);
        self.kept.retain(|address, _| is_in(address));
    }

    /// Whom to ask: active members, other than `me`, of whom we do not have the newest card.
    pub(super) fn missing(&self, me: &NodeId, members: &[Row]) -> Vec<NodeId> {
        let lacks = |node: &NodeId| match self.kept.get(&node.address) {
            Some(kept) if kept.incarnation == node.incarnation => {
                kept.card.as_ref().is_none_or(|(edition, _)| *edition != kept.edition)
            }
            Some(_) | None => true,
        };
        let others = members.iter().filter(|row| row.status == Status::Active && row.node != *me);
        others.map(|row| &row.node).filter(|node| lacks(node)).cloned().collect()
    }

    /// The list: everybody in the table, and ourselves whether we are in it or not.
    pub(super) fn list(
        &self,
        own: NodeCard,
        me: &NodeId,
        members: &[Row],
        leader: Option<&NodeId>,
        now: Duration,
    ) -> Vec<NodeCard> {
        let own_row = members.iter().find(|row| row.node == *me);
        let own =
            NodeCard { status: own_row.map(|row| row.status), leader: leader == Some(me), ..own };
        let others = members.iter().filter(|row| row.node.address != me.address);
        let mut all: Vec<_> = others.map(|row| self.of(row, leader, now)).collect();
        all.push(own);
        all.sort_by(|one, other| one.address.cmp(&other.address));
        all
    }

    fn of(&self, row: &Row, leader: Option<&NodeId>, now: Duration) -> NodeCard {
        let kept = self.kept.get(&row.node.address);
        let kept = kept.filter(|kept| kept.incarnation == row.node.incarnation);
        let shown = kept.and_then(|kept| Some((kept, kept.card.as_ref()?)));
        let card = match shown {
            Some((kept, (_, card))) => {
                let age = now.saturating_sub(kept.at).as_millis();
                let age_ms = u64::try_from(age).unwrap_or(u64::MAX);
                NodeCard { load: kept.load, age_ms, ..card.clone() }
            }
            None => NodeCard { name: row.name.clone(), ..NodeCard::default() },
        };
        NodeCard {
            address: Some(row.node.address.clone()),
            status: Some(row.status),
            leader: leader == Some(&row.node),
            ..card
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(port: u16, incarnation: u64) -> NodeId {
        let address = Address::new("10.0.0.1", port).unwrap();
        NodeId { address, incarnation: Incarnation(incarnation) }
    }

    fn row(node: &NodeId, status: Status) -> Row {
        let name = format!("row {}", node.address.port());
        Row { node: node.clone(), name, is_seed: false, is_observer: false, status }
    }

    fn card(life: &str) -> NodeCard {
        NodeCard { life: life.into(), ..NodeCard::default() }
    }

    const NOW: Duration = Duration::from_secs(10);

    #[test]
    fn a_member_is_asked_until_its_newest_card_is_here() {
        let (me, other) = (node(1, 5), node(2, 5));
        let members = [row(&me, Status::Active), row(&other, Status::Active)];
        let mut cards = Cards::default();
        assert_eq!(
            cards.missing(&me, &members),
            std::slice::from_ref(&other),
            "nothing is known of it"
        );
        cards.note_card(&other, 1, card("a"), NOW);
        assert_eq!(cards.missing(&me, &members), []);
        cards.note_sign(&other, 2, Load::default(), NOW);
        assert_eq!(
            cards.missing(&me, &members),
            std::slice::from_ref(&other),
            "it has another one now"
        );
        cards.note_card(&other, 2, card("b"), NOW);
        assert_eq!(cards.missing(&me, &members), []);
        let reborn = [row(&me, Status::Active), row(&node(2, 6), Status::Active)];
        assert_eq!(cards.missing(&me, &reborn), [node(2, 6)], "another process is there now");
        let silent = [row(&me, Status::Active), row(&node(2, 6), Status::Unreachable)];
        assert_eq!(cards.missing(&me, &silent), [], "it could not answer");
    }

    #[test]
    fn an_older_process_is_not_listened_to() {
        let (me, old, new) = (node(1, 5), node(2, 5), node(2, 6));
        let mut cards = Cards::default();
        cards.note_card(&new, 1, card("new"), NOW);
        cards.note_card(&old, 9, card("old"), NOW);
        let members = [row(&new, Status::Active)];
        let list = cards.list(card("me"), &me, &members, None, NOW);
        assert_eq!(list[1].life, "new");
    }

    #[test]
    fn everybody_in_the_table_is_in_the_list_and_nobody_else() {
        let (me, shown, bare, gone) = (node(2, 5), node(1, 5), node(3, 5), node(4, 5));
        let members = [
            row(&shown, Status::Active),
            row(&me, Status::Active),
            row(&bare, Status::Unreachable),
        ];
        let mut cards = Cards::default();
        let load = Load { cpu_percent: 150, memory_bytes: 9, tasks: 2 };
        cards.note_card(&shown, 1, card("a"), NOW);
        cards.note_card(&gone, 1, card("gone"), NOW);
        cards.note_sign(&shown, 1, load, NOW + Duration::from_secs(1));
        cards.keep_only(&members);
        assert_eq!(cards.kept.len(), 1);
        let own = NodeCard { address: Some(me.address.clone()), ..card("me") };
        let list = cards.list(own, &me, &members, Some(&shown), NOW + Duration::from_secs(3));
        let lives: Vec<_> = list.iter().map(|card| card.life.as_str()).collect();
        assert_eq!(lives, ["a", "me", ""]);
        assert_eq!((list[0].load, list[0].age_ms, list[0].leader), (load, 2_000, true));
        assert_eq!((list[1].status, list[1].leader), (Some(Status::Active), false));
        assert_eq!(list[2].name, "row 3");
        assert_eq!(list[2].status, Some(Status::Unreachable));
    }

    #[test]
    fn a_node_that_is_in_no_table_yet_lists_itself() {
        let me = node(1, 5);
        let list = Cards::default().list(card("me"), &me, &[], None, NOW);
        assert_eq!(list.len(), 1);
        assert_eq!((list[0].life.as_str(), list[0].status), ("me", None));
    }

    #[test]
    fn what_others_say_of_themselves_does_not_say_who_leads() {
        let (me, other) = (node(1, 5), node(2, 5));
        let boast = NodeCard { leader: true, age_ms: 7, address: None, ..card("a") };
        let mut cards = Cards::default();
        cards.note_card(&other, 1, boast, NOW);
        let list = cards.list(card("me"), &me, &[row(&other, Status::Active)], None, NOW);
        let it = list.iter().find(|it| it.life == "a").unwrap();
        assert_eq!((it.leader, it.age_ms, it.address.as_ref()), (false, 0, Some(&other.address)));
    }
}
