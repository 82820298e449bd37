//! The machine's step. Read [`Lease::step`], then `decide`, then `on_listing`.

use super::{
    Action, Answer, Asked, Input, Lease, Now, Problem, Session, Term,
    pick::pick,
    record::{Fresh, Held, Listing, Live},
    write::{self, Basis, Hold},
};
use crate::{
    layout::Millis,
    mutant::{self, Mutant},
};

/// How many writes of unknown fate are remembered. One that is forgotten and then shows up counts
/// as another's: the number is given up, nothing is repeated.
const UNKNOWN_MAX: usize = 8;

/// A session that took this long to open was one of many.
pub(crate) const SLOW: Millis = 100;

/// For how long to stand back from a crowd, at most.
pub(crate) const CROWD_MAX: Millis = 2_000;

impl Lease {
    /// Takes in what happened and says what to do. While it waits for an answer it only takes note.
    pub fn step(&mut self, input: Input, now: Now) -> Vec<Action> {
        let mut todo = self.take_in(input, now);
        if self.stop.is_some() {
            // The generator was sealed and the time up to which it was used is known: an answer
            // that comes now must not open it again.
            todo.retain(|it| !matches!(it, Action::Open { .. } | Action::Extend(_)));
        }
        todo
    }

    fn take_in(&mut self, input: Input, now: Now) -> Vec<Action> {
        let mut todo = Vec::new();
        match input {
            Input::Tick if self.is_waiting() || now.boot < self.rest_until => return todo,
            Input::Tick => {}
            Input::Session(opened) => {
                let asked = std::mem::replace(&mut self.asked, Asked::Nothing);
                match opened {
                    Ok(()) => self.session = Session::Open,
                    Err(problem) => return self.rest(problem, now),
                }
                if self.is_in_a_crowd(&asked, now) {
                    return todo;
                }
            }
            Input::SessionLost => self.lose_session(),
            Input::Listed(listed) => {
                self.asked = Asked::Nothing;
                match listed {
                    Ok(listing) => return self.on_listing(&listing, now),
                    Err(problem) => return self.rest(problem, now),
                }
            }
            Input::Committed(answer) => {
                let asked = std::mem::replace(&mut self.asked, Asked::Nothing);
                match answer {
                    Answer::Done(versions) => self.on_done(asked, &versions, &mut todo),
                    Answer::Refused => return self.on_refused(&asked, now),
                    Answer::Unknown(why) => return self.on_unknown(asked, why, now),
                    Answer::NoSession => self.lose_session(),
                }
            }
            Input::Leap(wall) => self.leap = Some(wall),
            Input::Stop(used_until) => self.stop = Some(used_until),
        }
        if !self.is_waiting() {
            self.decide(now, &mut todo);
        }
        todo
    }

    /// A store that is slow to answer is asked by many. Whoever seeks a number then waits for up to as
    /// long again: a listing that many have at the same moment sends them all for the same numbers.
    fn is_in_a_crowd(&mut self, asked: &Asked, now: Now) -> bool {
        let Asked::Session(since) = asked else { return false };
        let took = now.boot.saturating_sub(*since);
        let is_crowd = took >= SLOW && self.term.is_none() && self.stop.is_none();
        if is_crowd {
            self.rest_until = now.boot + now.dice % took.min(CROWD_MAX);
        }
        is_crowd
    }

    /// What to ask for next, if anything.
    fn decide(&mut self, now: Now, todo: &mut Vec<Action>) {
        if let Some(used_until) = self.stop {
            return self.finish(used_until, now, todo);
        }
        if self.session == Session::None {
            self.asked = Asked::Session(now.boot);
            return todo.push(Action::OpenSession);
        }
        match &self.term {
            Some(term) if term.is_attached && self.unknown.is_empty() && self.leap.is_none() => {
                match self.due_in(term, now.clock) {
                    0 => self.extend(now, todo),
                    wait => self.rest_until = now.boot + wait,
                }
            }
            Some(_) | None => {
                self.asked = Asked::List;
                todo.push(Action::List);
            }
        }
    }

    /// How long until the mark should be moved.
    fn due_in(&self, term: &Term, clock: Millis) -> Millis {
        let late = term.until.saturating_sub(self.terms.window - self.terms.period);
        late.saturating_sub(clock)
    }

    fn on_listing(&mut self, listing: &Listing, now: Now) -> Vec<Action> {
        let mut todo = Vec::new();
        if let Some(problem) = self.check(listing, now.clock) {
            return self.rest(problem, now);
        }
        if listing.layout.is_none() {
            let txn = write::fix_layout(&self.layout);
            self.asked = Asked::Layout;
            return vec![Action::Commit { txn, in_session: false }];
        }
        self.resolve(listing, &mut todo);
        if self.term.is_some() {
            self.problem = None;
        }
        if let Some(wall) = self.leap.take() {
            match self.ahead_by(listing, wall) {
                None => todo.push(Action::FollowLeap),
                Some(by) => self.problem = Some(Problem::ClockAhead { by }),
            }
        }
        if let Some(used_until) = self.stop {
            self.finish(used_until, now, &mut todo);
            return todo;
        }
        match &self.term {
            Some(term) if term.is_attached => match self.due_in(term, now.clock) {
                0 => self.extend(now, &mut todo),
                wait => self.rest_until = now.boot + wait.min(self.terms.period),
            },
            Some(term) => {
                let (hold, from) = (term.hold, term.from);
                // Ours of a former session, if it is still there.
                let live = listing.live.get(&hold.number).map(|live| live.version);
                let fresh = Some(hold.fresh);
                let floor = listing.floor.as_ref().map(|floor| floor.version);
                let basis = Basis { number: hold.number, live, fresh, floor };
                let until = term.until.max(self.mark(now.clock));
                self.claim(basis, from, until, now, &mut todo);
            }
            None => return self.seek(listing, now, todo),
        }
        todo
    }

    /// What speaks against taking part at all.
    fn check(&self, listing: &Listing, clock: Millis) -> Option<Problem> {
        if let Some(theirs) = listing.layout.filter(|theirs| *theirs != self.layout) {
            return Some(Problem::OtherLayout { theirs });
        }
        let left = self.layout.end().saturating_sub(clock);
        if clock < self.layout.epoch || left < self.terms.left_min {
            return Some(Problem::OutOfTime { left });
        }
        None
    }

    /// Compares what we believe with what is stored.
    fn resolve(&mut self, listing: &Listing, todo: &mut Vec<Action>) {
        let is_ours = |fresh: &Fresh| self.unknown.iter().any(|it| it.attempt == fresh.attempt);
        let Some(term) = &mut self.term else {
            // A claim whose answer we did not hear may have been carried out.
            let late = listing.fresh.iter().find(|(number, fresh)| {
                let live = listing.live.get(number);
                is_ours(&fresh.value) && live.is_some_and(|live| live.value.owner == self.owner)
            });
            if let Some((number, fresh)) = late {
                let live = listing.live[number].version;
                self.adopt(*number, live, fresh, todo);
            }
            return;
        };
        let number = term.hold.number;
        let (live, fresh) = (listing.live.get(&number), listing.fresh.get(&number));
        let is_anothers = |live: &Held<Live>| live.value.owner != self.owner;
        let has_lost = live.is_some_and(is_anothers) || listing.retired.contains_key(&number);
        match fresh {
            Some(fresh) if !has_lost && fresh.version == term.hold.fresh => {}
            Some(fresh) if !has_lost && is_ours(&fresh.value) => {
                term.hold.fresh = fresh.version;
                term.until = fresh.value.until;
                self.unknown.clear();
                todo.push(Action::Extend(term.until));
            }
            Some(_) | None => {
                self.term = None;
                self.unknown.clear();
                self.problem = Some(Problem::Joining);
                return todo.push(Action::Seal);
            }
        }
        let live = live.map(|live| live.version);
        if live != Some(term.hold.live) {
            term.is_attached = false;
            term.hold.live = live.unwrap_or(term.hold.live);
        }
    }

    fn adopt(
        &mut self,
        number: u32,
        live: sardonyx_store::Version,
        fresh: &Held<Fresh>,
        todo: &mut Vec<Action>,
    ) {
        let Fresh { from, until, .. } = fresh.value;
        let hold = Hold { number, live, fresh: fresh.version };
        // Whether that was in the present session is not known: attach it again.
        self.term = Some(Term { hold, from, until, is_attached: false });
        self.unknown.clear();
        todo.push(Action::Open { number, from, until });
    }

    /// How far `clock` is ahead of what the other holders go by, if that is too far.
    fn ahead_by(&self, listing: &Listing, clock: Millis) -> Option<Millis> {
        let is_another = |number: &u32| Some(*number) != self.number();
        let others = listing.live.keys().filter(|number| is_another(number));
        let marks = others.filter_map(|number| listing.fresh.get(number));
        let latest = marks.map(|fresh| fresh.value.until).max()?;
        let by = clock.saturating_sub(latest.saturating_sub(self.terms.window));
        let is_far = by > self.terms.ahead_max && !mutant::is_on(Mutant::LeapBelieved);
        is_far.then_some(by)
    }

    /// What speaks against our clock. Those who are there know better; if nobody is, those who may be
    /// about to come back.
    fn doubt(&mut self, listing: &Listing, now: Now) -> Option<Problem> {
        if let Some(by) = self.ahead_by(listing, now.clock) {
            return Some(Problem::ClockAhead { by });
        }
        let last = listing.fresh.values().max_by_key(|fresh| fresh.value.until);
        let last = last.filter(|fresh| listing.live.is_empty() && !fresh.value.is_released);
        let mark = last.map_or(now.clock, |fresh| fresh.value.until);
        let by = now.clock.saturating_sub(mark);
        if by < self.terms.doubt_min {
            self.doubt = None;
            return None;
        }
        let since = match self.doubt {
            Some((of, since)) if of == mark => since,
            Some(_) | None => now.boot,
        };
        self.doubt = Some((mark, since));
        let wait = (since + self.terms.window).saturating_sub(now.boot);
        (wait > 0).then_some(Problem::ClockDoubted { by, wait })
    }

    /// Looks for a number.
    fn seek(&mut self, listing: &Listing, now: Now, mut todo: Vec<Action>) -> Vec<Action> {
        if !self.unknown.is_empty() {
            // A claim of ours may still be carried out, and we would hold a number without knowing.
            // It cannot outlive its session.
            self.unknown.clear();
            self.lose_session();
            self.asked = Asked::Session(now.boot);
            todo.push(Action::OpenSession);
            return todo;
        }
        if let Some(problem) = self.doubt(listing, now) {
            todo.extend(self.rest(problem, now));
            return todo;
        }
        let Some(number) = pick(listing, &self.layout, now.clock, now.dice) else {
            let workers = self.layout.workers();
            todo.extend(self.rest(Problem::AtCapacity { workers }, now));
            return todo;
        };
        let fresh = listing.fresh.get(&number);
        let floor = listing.floor.as_ref();
        let basis = Basis {
            number,
            live: None,
            fresh: fresh.map(|it| it.version),
            floor: floor.map(|it| it.version),
        };
        let used = fresh.map_or(0, |it| it.value.until).max(floor.map_or(0, |it| it.value));
        let from = used.max(now.clock);
        self.claim(basis, from, self.mark(from), now, &mut todo);
        todo
    }

    fn mark(&self, from: Millis) -> Millis {
        (from + self.terms.window).min(self.layout.end())
    }

    fn fresh(&self, from: Millis, until: Millis, now: Now) -> Fresh {
        let (owner, attempt) = (self.owner.clone(), format!("{:016x}", now.dice));
        Fresh { until, from, owner, attempt, offset: now.offset, is_released: false }
    }

    fn claim(
        &mut self,
        basis: Basis,
        from: Millis,
        until: Millis,
        now: Now,
        todo: &mut Vec<Action>,
    ) {
        let fresh = self.fresh(from, until, now);
        let (owner, name) = (self.owner.clone(), self.terms.name.clone());
        let txn = write::claim(basis, &Live { owner, name, since: now.clock }, &fresh);
        self.asked = Asked::Claim(basis.number, fresh);
        todo.push(Action::Commit { txn, in_session: true });
    }

    fn extend(&mut self, now: Now, todo: &mut Vec<Action>) {
        let Some(term) = &self.term else { return };
        let (hold, from, until) = (term.hold, term.from, self.mark(now.clock));
        if until <= term.until {
            // At the end of the layout there is nothing to move any more.
            self.rest_until = now.boot + self.terms.period;
            return;
        }
        let fresh = self.fresh(from, until, now);
        let txn = write::extend(hold, &fresh);
        self.asked = Asked::Extend(fresh);
        todo.push(Action::Commit { txn, in_session: false });
    }

    fn on_done(
        &mut self,
        asked: Asked,
        versions: &[sardonyx_store::Version],
        todo: &mut Vec<Action>,
    ) {
        let version = |index: usize| versions.get(index).copied().unwrap_or_default();
        match asked {
            Asked::Claim(number, fresh) => {
                let Fresh { from, until, .. } = fresh;
                let hold = Hold { number, live: version(0), fresh: version(1) };
                let is_attached = self.session == Session::Open;
                let before = self.term.replace(Term { hold, from, until, is_attached });
                todo.push(match before {
                    Some(_) => Action::Extend(until),
                    None => Action::Open { number, from, until },
                });
            }
            Asked::Extend(fresh) => {
                if let Some(term) = &mut self.term {
                    term.hold.fresh = version(0);
                    term.until = fresh.until;
                    todo.push(Action::Extend(fresh.until));
                }
            }
            Asked::Release => self.term = None,
            Asked::Nothing | Asked::Session(_) | Asked::List | Asked::Layout | Asked::Ended => {
                return;
            }
        }
        // What has not been carried out by now was written for a version that has passed.
        self.unknown.clear();
        self.problem = None;
    }

    fn on_refused(&mut self, asked: &Asked, now: Now) -> Vec<Action> {
        match asked {
            Asked::Release => {
                // Somebody else's by now, or a late write of ours moved the mark: nothing to give.
                self.term = None;
            }
            Asked::Claim(..) | Asked::Layout if self.term.is_none() && self.stop.is_none() => {
                // Others seek at the same moment. Whoever looks again at once meets the same ones.
                self.rest_until = now.boot + now.dice % (self.terms.retry / 2).max(1);
                return Vec::new();
            }
            Asked::Extend(_) | Asked::Claim(..) | Asked::Layout => {
                self.asked = Asked::List;
                return vec![Action::List];
            }
            Asked::Nothing | Asked::Session(_) | Asked::List | Asked::Ended => {}
        }
        let mut todo = Vec::new();
        self.decide(now, &mut todo);
        todo
    }

    fn on_unknown(&mut self, asked: Asked, why: String, now: Now) -> Vec<Action> {
        match asked {
            Asked::Claim(_, fresh) | Asked::Extend(fresh) => {
                if self.unknown.len() == UNKNOWN_MAX {
                    self.unknown.remove(0);
                }
                self.unknown.push(fresh);
            }
            // The session's end does the rest.
            Asked::Release => self.term = None,
            Asked::Nothing | Asked::Session(_) | Asked::List | Asked::Layout | Asked::Ended => {}
        }
        self.rest(Problem::Store(why), now)
    }

    fn lose_session(&mut self) {
        self.session = Session::None;
        if let Some(term) = &mut self.term {
            term.is_attached = false;
        }
    }

    /// Gives the number back, and then the session.
    fn finish(&mut self, used_until: Millis, now: Now, todo: &mut Vec<Action>) {
        self.problem = Some(Problem::Stopped);
        let Some(term) = &self.term else {
            self.asked = Asked::Ended;
            return todo.push(Action::Close);
        };
        let until = used_until.clamp(term.from, term.until.max(term.from));
        let fresh = Fresh { is_released: true, ..self.fresh(term.from, until, now) };
        let txn = write::release(term.hold, &fresh);
        self.asked = Asked::Release;
        todo.push(Action::Commit { txn, in_session: false });
    }

    /// Waits a little, differently long for everybody, before trying again.
    fn rest(&mut self, problem: Problem, now: Now) -> Vec<Action> {
        let retry = self.terms.retry.max(1);
        self.rest_until = now.boot + retry / 2 + now.dice % retry;
        self.problem = Some(problem);
        if self.stop.is_some() {
            // Whoever stops does not wait: the session's end frees the number, only later.
            self.asked = Asked::Ended;
            return vec![Action::Close];
        }
        Vec::new()
    }
}
