//! What goes wrong, carried out.

use sardonyx_core::mutant::{self, Mutant};
use sardonyx_peer::Input;

use super::{Event, SESSION_TIMEOUT, World, name};
use crate::{process::Process, weather::Fault};

impl World {
    /// Carries out a fault.
    pub(super) fn blow(&mut self, fault: &Fault) -> Result<(), String> {
        if fault.process().is_some_and(|process| process >= self.processes.len()) {
            return Ok(());
        }
        match *fault {
            Fault::Crash { process, down } => self.crash(process, down),
            Fault::Stop { process, down } => return self.stop(process, down),
            Fault::MassDeath { down } => {
                for index in 0..self.processes.len() {
                    let down = self.processes[index].rng.below(down);
                    self.crash(index, down);
                }
            }
            Fault::MassStart { first, processes } => {
                for index in first..first + processes {
                    while self.processes.len() <= index {
                        let new = Process::new(self.plan.seed, self.processes.len());
                        self.processes.push(new);
                    }
                    self.at(0, Event::Boot(index));
                }
            }
            Fault::Pause { process, lasts } => self.silence(process, lasts, true),
            Fault::CutOff { process, lasts } => self.silence(process, lasts, false),
            Fault::SessionLost { process } => self.lose(process),
            Fault::LostAnswers { percent, lasts } => {
                self.note("world", &format!("loses {percent} of 100 for {lasts} ms"));
                self.lost_answers = (percent, self.now + lasts);
            }
            Fault::Echo { back } => return self.echo(back),
            Fault::SlowReader { process, delay, lasts } => {
                self.processes[process].slow = (delay, self.now + lasts);
            }
            Fault::StuckReader { process, lasts } => {
                let session = self.processes[process].session(process);
                self.note(&name(session), &format!("reads nothing for {lasts} ms"));
                self.processes[process].stuck_until = self.now + lasts;
            }
            Fault::Gc { dies_after, pace } => return self.gc(dies_after, pace),
            Fault::LoopFails { process } => self.fail_loop(process),
            Fault::Ambush { moment, harm } => self.ambushes.push((moment, harm)),
            Fault::ClockStep { process, by } => {
                let session = self.processes[process].session(process);
                self.note(&name(session), &format!("its clock jumps by {by} ms"));
                self.processes[process].clock += by;
                self.at(0, Event::Alarm(session));
            }
        }
        Ok(())
    }

    /// Leaves the ring on purpose; the process ends when all its peers are out.
    fn stop(&mut self, index: usize, down: u64) -> Result<(), String> {
        let session = self.processes[index].session(index);
        if self.processes[index].node.is_none() || self.processes[index].stops_for.is_some() {
            return Ok(());
        }
        self.note(&name(session), "leaves");
        self.processes[index].stops_for = Some(down);
        self.step(session, Input::Leave)
    }

    /// Nobody hears of the process for a while; it stands still meanwhile, or runs on.
    fn silence(&mut self, index: usize, lasts: u64, stands_still: bool) {
        let session = self.processes[index].session(index);
        let until = self.now + lasts;
        let what = if stands_still { "is stopped" } else { "is cut off" };
        self.note(&name(session), &format!("{what} until {until}"));
        match stands_still {
            true => self.processes[index].paused_until = until,
            false => self.processes[index].cut_off_until = until,
        }
        self.at(SESSION_TIMEOUT, Event::Expire(session));
        self.at(lasts, Event::Ping(session));
    }

    fn lose(&mut self, index: usize) {
        if self.processes[index].node.is_some() {
            let session = self.processes[index].session(index);
            self.end_session(session);
            self.at(1, Event::Ping(session));
        }
    }

    /// An old command is appended once more, as if nobody had heard it.
    fn echo(&mut self, back: usize) -> Result<(), String> {
        let Some(command) = self.store.command_back(back) else { return Ok(()) };
        self.probes.echoes += 1;
        let token = self.token();
        self.append("echo", token, command).map(|_| ())
    }

    /// Something in the loop fails: all of it is taken down, and comes back under new ids.
    fn fail_loop(&mut self, index: usize) {
        if self.processes[index].node.is_none() {
            return;
        }
        let session = self.processes[index].session(index);
        self.note(&name(session), "its loop fails");
        self.probes.loops_failed += 1;
        if mutant::is_on(Mutant::ZombieLoop) {
            self.processes[index].is_zombie = true;
            return;
        }
        self.processes[index].crash();
        self.end_session(session);
        let after = self.processes[index].rng.below(500);
        self.at(after, Event::Boot(index));
    }
}
