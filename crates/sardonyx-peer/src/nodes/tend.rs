//! The loop by which a node shows its card to the mesh and collects those of others.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use sardonyx_mesh::{
    Address, Mesh,
    events::{
        Event, Question,
        envelope::{Envelope, Events},
    },
};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::{About, Load, NodeCard, cards::Cards, load::Meter, lock, now, own_card};

/// How often a node looks whether its own card has changed, and whose it lacks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often a node says how it is, at least: every other member is told, so in a large mesh less
/// often, and what one node sends and hears in a second stays the same.
const SIGN_EVERY: Duration = Duration::from_secs(2);

/// So many members are told in a second.
const SIGNS_PER_SECOND: u32 = 20;

/// How many cards are asked for at a time; who is left over is asked at the next look.
const ASKS_MAX: usize = 16;

/// How long one may take to show its card.
const ASK_PATIENCE: Duration = Duration::from_secs(2);

/// "I am here, this is how I am, and this is which card I have."
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sign {
    edition: u64,
    load: Load,
}

impl Event for Sign {
    const KIND: &'static str = "sardonyx.node.sign.1";
}

/// "Show me your card."
#[derive(Clone, Debug, Serialize, Deserialize)]
struct WhoAreYou;

impl Event for WhoAreYou {
    const KIND: &'static str = "sardonyx.node.card.1";
}

impl Question for WhoAreYou {
    type Answer = (u64, NodeCard);
}

/// How long to wait between two signs in a mesh of so many.
fn sign_every(n_members: usize) -> Duration {
    let n_members = u32::try_from(n_members).unwrap_or(u32::MAX);
    SIGN_EVERY.max(Duration::from_secs(1) * n_members / SIGNS_PER_SECOND)
}

pub(super) struct Tending {
    about: About,
    mesh: Arc<Mesh>,
    cards: Arc<Mutex<Cards>>,
    meter: Meter,
    begun: Instant,
    /// What we have shown, and how many there were before it.
    shown: NodeCard,
    edition: u64,
    signed: Option<Instant>,
    asked: Vec<Address>,
}

impl Tending {
    pub(super) fn new(about: About, mesh: Arc<Mesh>, cards: Arc<Mutex<Cards>>) -> Tending {
        let shown = own_card(&about, Some(&mesh)).lasting();
        Tending {
            about,
            mesh,
            cards,
            meter: Meter::default(),
            begun: Instant::now(),
            shown,
            edition: 1,
            signed: None,
            asked: Vec::new(),
        }
    }

    /// Returns when the mesh has stopped.
    pub(super) async fn run(mut self) {
        let mut signs: Events<Sign> = self.mesh.receive();
        let mut questions: Events<WhoAreYou> = self.mesh.receive();
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut answers = JoinSet::new();
        loop {
            tokio::select! {
                sign = signs.next() => match sign {
                    Some(sign) => self.hear(&sign),
                    None => return,
                },
                question = questions.next() => match question {
                    Some(question) => self.answer(question),
                    None => return,
                },
                Some(answered) = answers.join_next() => {
                    if let Ok(address) = answered {
                        self.asked.retain(|it| *it != address);
                    }
                }
                _ = look.tick() => {
                    self.show();
                    self.ask(&mut answers);
                }
            }
        }
    }

    fn hear(&self, sign: &Envelope<Sign>) {
        let Sign { edition, load } = sign.event;
        lock(&self.cards).note_sign(&sign.from, edition, load, now());
    }

    fn answer(&mut self, question: Envelope<WhoAreYou>) {
        self.renew();
        let load = self.load();
        question.answer(&(self.edition, NodeCard { load, ..self.shown.clone() }));
    }

    /// Looks whether our card is another one now.
    fn renew(&mut self) -> bool {
        let card = own_card(&self.about, Some(&self.mesh)).lasting();
        let is_new = card != self.shown;
        if is_new {
            self.shown = card;
            self.edition += 1;
        }
        is_new
    }

    fn load(&mut self) -> Load {
        let tasks = own_card(&self.about, None).load.tasks;
        self.meter.read(self.begun.elapsed(), tasks)
    }

    /// Says how we are, if it is time or our card has changed.
    fn show(&mut self) {
        let every = sign_every(self.mesh.members().members.len());
        let is_time = self.signed.is_none_or(|at| at.elapsed() >= every);
        if !self.renew() && !is_time {
            return;
        }
        self.signed = Some(Instant::now());
        let sign = Sign { edition: self.edition, load: self.load() };
        // Who does not get it hears the next one.
        let _ = self.mesh.roar(&sign, false);
    }

    /// Asks those whose card we do not have.
    fn ask(&mut self, answers: &mut JoinSet<Address>) {
        let report = self.mesh.members();
        let missing = {
            let mut cards = lock(&self.cards);
            cards.keep_only(&report.members);
            cards.missing(self.mesh.node(), &report.members)
        };
        for node in missing {
            if self.asked.len() >= ASKS_MAX {
                return;
            }
            if self.asked.contains(&node.address) {
                continue;
            }
            self.asked.push(node.address.clone());
            let (mesh, cards) = (Arc::clone(&self.mesh), Arc::clone(&self.cards));
            answers.spawn(async move {
                // Without an answer it is asked again at the next look, while it is active.
                if let Ok((edition, card)) = mesh.ask(&node.address, &WhoAreYou, ASK_PATIENCE).await
                {
                    lock(&cards).note_card(&node, edition, card, now());
                }
                node.address
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_says_in_a_second_does_not_grow_with_the_mesh() {
        assert_eq!(sign_every(3), SIGN_EVERY);
        assert_eq!(sign_every(40), SIGN_EVERY);
        assert_eq!(sign_every(200), Duration::from_secs(10));
    }
}
