//! The handshake: who is there, do we belong together, and which of two connections stays.
//!
//! ```text
//! who dialled                                   who was dialled
//! Active: who I am, whom I want, config ──────►
//!            ◄─────────────────────────────────  Challenge: a number to sign
//! Proof: the key signs all of the above ──────►  checks the proof, then the config; decides
//!            ◄─────────────────────────────────  Passive: who I am, config, proof of its own
//! decides                                        or Refused: why
//! ```
//!
//! A [`Greeting`] is one side of it: messages in, messages out, and in the end who the other is or
//! why not. It opens nothing and waits for nothing; the shell gives it bytes and obeys. Nothing but
//! these messages is understood before it is over, and what one side knows of the other afterwards
//! is what was signed. [`links::Links`] then keeps one connection for each peer.
//!
//! Both sides sign everything that was said, with a label for their role, so that nobody can send
//! our own proof back to us. A stranger hears a number and nothing else.

pub mod key;
pub mod links;
pub mod message;

use std::fmt;

use self::{
    key::{Key, Nonce},
    message::{Active, Greet, Identity, Lane, MAGIC, Passive},
};
use crate::{
    address::Address,
    config::{Config, ConfigError},
    wire::codec,
};

/// The protocol versions that this build speaks, lowest and highest.
pub const VERSIONS: (u16, u16) = (1, 1);

/// What a node says of itself in every greeting.
#[derive(Clone, Debug)]
pub struct Me {
    /// Who we are.
    pub identity: Identity,
    /// What others are compared with.
    pub config: Config,
    /// The key that all members share, if there is one.
    pub key: Option<Key>,
}

/// The other side of a connection, as it was greeted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Who it is.
    pub identity: Identity,
    /// What the connection is for.
    pub lane: Lane,
    /// The dialler's number of the connection: of two, the larger is the later one.
    pub dial: u64,
    /// The version of the protocol to speak.
    pub version: u16,
}

/// Why a connection does not come about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// What was said is no greeting, or not the one that was due.
    NotAGreeting(String),
    /// No common version.
    Version {
        /// The other side's lowest and highest.
        theirs: (u16, u16),
    },
    /// The other side has another key, or none, or has one where we have none.
    Key,
    /// Another cluster, or settings that are not safe together.
    Config(ConfigError),
    /// The other side was dialled under a name that it does not have.
    Misdialled {
        /// The name that was dialled.
        dialled: String,
        /// The name that it has.
        is: String,
    },
    /// The two have a connection already that is to be preferred.
    Duplicate,
    /// The other side said so.
    ByPeer(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NotAGreeting(why) => write!(f, "not a greeting: {why}"),
            Refused::Version { theirs: (low, high) } => {
                let (our_low, our_high) = VERSIONS;
                write!(f, "no common version: {low} to {high} there, {our_low} to {our_high} here")
            }
            Refused::Key => f.write_str("wrong or missing key: give all members the same one"),
            Refused::Config(why) => write!(f, "{why}"),
            Refused::Misdialled { dialled, is } => {
                write!(f, "{dialled} calls itself {is}: write {is} wherever it is named")
            }
            Refused::Duplicate => f.write_str("there is a better connection already"),
            Refused::ByPeer(why) => write!(f, "refused there: {why}"),
        }
    }
}

impl std::error::Error for Refused {}

/// What to do after a message: say these, and if it is over, how it ended.
#[derive(Debug, Default)]
pub struct Step {
    /// Messages to send, in this order.
    pub say: Vec<Vec<u8>>,
    /// How it ended, or `None` while it goes on.
    pub end: Option<Result<Peer, Refused>>,
}

#[derive(Debug)]
enum State {
    /// Dialled; waits for the challenge.
    AwaitChallenge(Active),
    /// Dialled and proved; waits for the other's greeting.
    AwaitPassive(Active),
    /// Was dialled; waits for the first word.
    AwaitActive(Nonce),
    /// Was dialled and greeted; waits for the proof.
    AwaitProof(Active),
    /// Was dialled, knows the other; waits for what the registry says.
    AwaitVerdict(Box<Peer>),
    Over,
}

/// One side of a handshake.
#[derive(Debug)]
pub struct Greeting {
    me: Me,
    state: State,
    /// All that was said so far, as bytes, for both proofs.
    said: Vec<u8>,
}

impl Greeting {
    /// Begins as the one who dialled `to`: the first message is there at once.
    pub fn active(me: Me, to: Address, lane: Lane, dial: u64, nonce: Nonce) -> (Greeting, Vec<u8>) {
        let active = Active {
            magic: MAGIC,
            versions: VERSIONS,
            identity: me.identity.clone(),
            to,
            config: me.config.summary(),
            lane,
            dial,
            nonce,
        };
        let mut greeting = Greeting { me, state: State::Over, said: Vec::new() };
        let first = greeting.say(&Greet::Active(active.clone()));
        greeting.state = State::AwaitChallenge(active);
        (greeting, first)
    }

    /// Begins as the one who was dialled. `nonce` must never be the same twice.
    pub fn passive(me: Me, nonce: Nonce) -> Greeting {
        Greeting { me, state: State::AwaitActive(nonce), said: Vec::new() }
    }

    /// Takes the other side's next message.
    pub fn hear(&mut self, bytes: &[u8]) -> Step {
        let heard = codec::decode(bytes).map_err(|why| Refused::NotAGreeting(why.to_string()));
        match heard.and_then(|greet| self.answer(greet, bytes)) {
            Ok(step) => step,
            Err(why) => self.refuse(why),
        }
    }

    /// The registry's answer for the one who was dialled, after `hear` ended with a peer: it is
    /// kept, or it lost to another connection.
    pub fn decide(&mut self, verdict: Result<(), Refused>) -> Step {
        let State::AwaitVerdict(peer) = std::mem::replace(&mut self.state, State::Over) else {
            return Step::default();
        };
        match verdict {
            Err(why) => self.refuse(why),
            Ok(()) => {
                let (identity, config) = (self.me.identity.clone(), self.me.config.summary());
                let passive = Passive { identity, config, version: peer.version };
                let mut said = self.said.clone();
                said.extend(codec::encode(&passive).unwrap_or_default());
                let proof = Key::sign(self.me.key.as_ref(), "passive", &said);
                Step { say: vec![self.say(&Greet::Passive(passive, proof))], end: None }
            }
        }
    }

    fn answer(&mut self, greet: Greet, bytes: &[u8]) -> Result<Step, Refused> {
        let state = std::mem::replace(&mut self.state, State::Over);
        match (state, greet) {
            (State::AwaitActive(nonce), Greet::Active(active)) => {
                if active.magic != MAGIC {
                    return Err(Refused::NotAGreeting("it begins with other letters".into()));
                }
                self.heard(bytes);
                let say = vec![self.say(&Greet::Challenge(nonce))];
                self.state = State::AwaitProof(active);
                Ok(Step { say, end: None })
            }
            (State::AwaitChallenge(active), Greet::Challenge(_)) => {
                self.heard(bytes);
                let proof = Key::sign(self.me.key.as_ref(), "active", &self.said);
                let say = vec![self.say(&Greet::Proof(proof))];
                self.state = State::AwaitPassive(active);
                Ok(Step { say, end: None })
            }
            (State::AwaitProof(active), Greet::Proof(proof)) => {
                if !Key::is_signed(self.me.key.as_ref(), "active", &self.said, &proof) {
                    return Err(Refused::Key);
                }
                self.heard(bytes);
                let peer = self.judge_active(active)?;
                self.state = State::AwaitVerdict(Box::new(peer.clone()));
                Ok(Step { say: Vec::new(), end: Some(Ok(peer)) })
            }
            (State::AwaitPassive(active), Greet::Passive(passive, proof)) => {
                let mut said = self.said.clone();
                said.extend(codec::encode(&passive).unwrap_or_default());
                if !Key::is_signed(self.me.key.as_ref(), "passive", &said, &proof) {
                    return Err(Refused::Key);
                }
                let end = Some(self.judge_passive(&active, passive));
                Ok(Step { say: Vec::new(), end })
            }
            (_, Greet::Refused(why)) => {
                Ok(Step { say: Vec::new(), end: Some(Err(Refused::ByPeer(why))) })
            }
            (_, Greet::Active(_) | Greet::Challenge(_) | Greet::Proof(_) | Greet::Passive(..)) => {
                Err(Refused::NotAGreeting("out of turn".into()))
            }
        }
    }

    fn judge_active(&self, active: Active) -> Result<Peer, Refused> {
        let version = common_version(active.versions)?;
        self.me.config.fits(&active.config).map_err(Refused::Config)?;
        let me = &self.me.identity.node.address;
        if active.to != *me {
            let (dialled, is) = (active.to.to_string(), me.to_string());
            return Err(Refused::Misdialled { dialled, is });
        }
        if active.identity.node.address == *me {
            return Err(Refused::NotAGreeting(format!("{me} is already somebody: me")));
        }
        let Active { identity, lane, dial, .. } = active;
        Ok(Peer { identity, lane, dial, version })
    }

    fn judge_passive(&self, active: &Active, passive: Passive) -> Result<Peer, Refused> {
        let Passive { identity, config, version } = passive;
        if common_version((version, version)).is_err() {
            return Err(Refused::Version { theirs: (version, version) });
        }
        self.me.config.fits(&config).map_err(Refused::Config)?;
        if identity.node.address != active.to {
            let (dialled, is) = (active.to.to_string(), identity.node.address.to_string());
            return Err(Refused::Misdialled { dialled, is });
        }
        Ok(Peer { identity, lane: active.lane, dial: active.dial, version })
    }

    fn refuse(&mut self, why: Refused) -> Step {
        self.state = State::Over;
        // Who hears of a duplicate has a connection, or will have one when it tries again; who is
        // refused by the peer knows already.
        let say = match &why {
            Refused::ByPeer(_) => Vec::new(),
            Refused::NotAGreeting(_)
            | Refused::Version { .. }
            | Refused::Key
            | Refused::Config(_)
            | Refused::Misdialled { .. }
            | Refused::Duplicate => vec![self.say(&Greet::Refused(why.to_string()))],
        };
        Step { say, end: Some(Err(why)) }
    }

    fn say(&mut self, greet: &Greet) -> Vec<u8> {
        // Greetings are made of numbers and short texts: they can always be written.
        let bytes = codec::encode(greet).unwrap_or_default();
        self.heard(&bytes);
        bytes
    }

    fn heard(&mut self, bytes: &[u8]) {
        self.said.extend((bytes.len() as u32).to_le_bytes());
        self.said.extend(bytes);
    }
}

fn common_version(theirs: (u16, u16)) -> Result<u16, Refused> {
    let version = VERSIONS.1.min(theirs.1);
    match version >= VERSIONS.0.max(theirs.0) {
        true => Ok(version),
        false => Err(Refused::Version { theirs }),
    }
}

#[cfg(test)]
mod tests;
