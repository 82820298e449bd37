//! What of a lease can make a difference to what it does: the model compares states by this.
//!
//! Every field is named, so that a new one does not compile before somebody has thought about it. What
//! is left out here is not read by [`Lease::step`] in the model's world, or only against something
//! that stands in [`View`]. That two leases of one shape do the same is not only argued: the model's
//! tests play it through.

use sardonyx_store::Version;

use super::{Asked, Lease, Session, Term, record::Fresh};
use crate::layout::Millis;

/// The part of the world that a lease is seen against.
pub(crate) struct View<'a> {
    /// Where times are counted from.
    pub(crate) epoch: Millis,
    /// No input of this process comes before this time on its steady clock.
    pub(crate) clock_min: Millis,
    /// Its boot clock.
    pub(crate) boot: Millis,
    /// The present version of a number's liveness key.
    pub(crate) live: &'a dyn Fn(u32) -> Option<Version>,
    /// The present version of a number's freshness key.
    pub(crate) fresh: &'a dyn Fn(u32) -> Option<Version>,
    /// Whether an answer may have been lost, or may yet be: only who heard none looks into the store
    /// for where its own term began, or for its own attempt.
    pub(crate) is_unsure: bool,
    /// Whether the request that is out will be turned down, whenever it arrives: then nothing of what it
    /// would have written is read again.
    pub(crate) is_doomed: bool,
}

impl View<'_> {
    /// A time as a byte. The model's times are small; one that is not is for ever.
    pub(crate) fn byte(&self, time: Millis) -> u8 {
        u8::try_from(time.saturating_sub(self.epoch)).unwrap_or(u8::MAX)
    }
}

impl Lease {
    /// Appends the shape.
    pub(crate) fn shape(&self, view: &View<'_>, out: &mut Vec<u8>) {
        let Lease { session, term, unknown, asked, rest_until, leap, stop, doubt, .. } = self;
        // The rest: the same for all processes; a name, which the caller compares with whose the number
        // is; and a message for people, which the machine only writes.
        let Lease { layout: _, terms, owner: _, problem: _, .. } = self;
        assert!(leap.is_none() && stop.is_none() && doubt.is_none(), "not in the model");
        // Beyond this, how far a mark lies behind the clock makes no difference: the next is due, and
        // is set from the clock.
        let due = view.clock_min + (terms.window - terms.period);
        out.push(u8::from(*session == Session::Open));
        out.push(u8::try_from(rest_until.saturating_sub(view.boot)).unwrap_or(u8::MAX));
        match term {
            None => out.push(0),
            Some(Term { hold, from, until, is_attached }) => {
                // Versions are compared with what is stored now and never come again, so one that has
                // passed is like any other that has.
                let is_live = (view.live)(hold.number) == Some(hold.live);
                let is_fresh = (view.fresh)(hold.number) == Some(hold.fresh);
                let bits = [is_live, is_fresh, *is_attached].map(u8::from);
                out.extend([1, hold.number as u8, bits[0] | bits[1] << 1 | bits[2] << 2]);
                out.push(view.byte((*until).max(due)));
                out.push(if view.is_unsure { view.byte(*from) } else { 0 });
            }
        }
        // Of what was written with unknown fate only the attempt is read, and that the caller compares.
        out.push(unknown.len() as u8);
        let reads_from = view.is_unsure || term.is_none();
        let mut write = |kind: u8, number: u32, fresh: &Fresh| {
            if view.is_doomed && !view.is_unsure {
                return out.push(kind);
            }
            let from = if reads_from { view.byte(fresh.from) } else { 0 };
            out.extend([kind, number as u8, view.byte(fresh.until), from]);
        };
        match asked {
            Asked::Claim(number, fresh) => write(1, *number, fresh),
            Asked::Extend(fresh) => write(2, 0, fresh),
            Asked::Nothing => out.push(3),
            // Since when matters only where answers take longer than a model lasts.
            Asked::Session(_) => out.push(4),
            Asked::List => out.push(5),
            Asked::Layout => out.push(6),
            Asked::Release => out.push(7),
            Asked::Ended => out.push(8),
        }
    }

    /// Whether it has written this and heard nothing of it.
    pub(crate) fn is_unsure_of(&self, fresh: &Fresh) -> bool {
        self.unknown.iter().any(|it| it.attempt == fresh.attempt)
    }

    /// Whether it has written anything of which it has heard nothing.
    pub(crate) fn is_unsure(&self) -> bool {
        !self.unknown.is_empty()
    }

    /// Whether it holds a number on the condition of another version than this.
    pub(crate) fn holds_other_than(&self, fresh: Version) -> bool {
        self.term.as_ref().is_some_and(|term| term.hold.fresh != fresh)
    }

    /// Whether it believes that it has a session.
    pub(crate) fn has_session(&self) -> bool {
        self.session == Session::Open
    }

    /// Whose lease it is.
    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }
}
