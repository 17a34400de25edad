//! The timed loop over many connections. Nothing else may be put here.
//!
//! span = end - start of an operation: from before the first byte of its first request is sent to the return of the
//! `recv` that delivered the last byte of its last response. It includes the time in which this thread serves other
//! connections whose responses had arrived earlier, as in the servers' own load generators.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{Error, ErrorKind};
use std::os::fd::RawFd;

use pyo3::exceptions::PyConnectionError;
use pyo3::prelude::*;

use crate::framing::{Framer, Protocol};
use crate::poll::{block, exact_sleeps, now, receive, sleep, Poll, AWAKE_NS};

/// Longest time without a look at signals.
const TURN_NS: i64 = 50_000_000;
/// An operation that is under way for this long is slow.
const SLOW_NS: i64 = 1_000_000_000;
/// Bytes of one `recv`.
const SCRATCH: usize = 256 << 10;
/// A request, and how many responses it has.
pub type Request = (&'static [u8], usize);

/// A connection's requests. Operation n has those from `ends[n - 1]` to `ends[n]`.
#[derive(Default)]
pub struct Schedule {
    pub requests: Vec<Request>,
    pub ends: Vec<usize>,
}

impl Schedule {
    pub fn operations(&self) -> usize {
        self.ends.len()
    }
}

/// In ns of `now`, and in bytes.
pub struct Limits {
    pub start: i64,
    pub deadline: i64,
    pub bytes: usize,
}

/// One connection: its requests, the state of the operation that is under way, and what was received.
pub struct Channel {
    pub schedule: Schedule,
    pub received: Vec<u8>,
    pub responses: Vec<usize>,
    pub starts: Vec<i64>,
    pub ends: Vec<i64>,
    pub freed: Vec<i64>,
    /// Where each operation that was done ends in `responses`.
    pub operations: Vec<usize>,
    protocol: Protocol,
    descriptor: RawFd,
    pub due: Option<Vec<i64>>,
    framer: Framer,
    /// Where the response that is arriving begins in `received`.
    begins: usize,
    /// The next request to send, and how many bytes of it are sent.
    request: usize,
    sent: usize,
    /// Responses that are still to come for the requests that were sent.
    expected: usize,
    /// Whether a response of the operation is an error.
    failed: bool,
    /// The request that undoes the operation, while that takes place.
    undo: Option<&'static [u8]>,
    waits_to_write: bool,
    free_since: i64,
}

impl Channel {
    pub fn new(protocol: Protocol, descriptor: RawFd, schedule: Schedule) -> Channel {
        let operations = schedule.operations();
        Channel {
            received: Vec::with_capacity(64 * schedule.requests.len()),
            responses: Vec::with_capacity(schedule.requests.len()),
            starts: Vec::with_capacity(operations),
            ends: Vec::with_capacity(operations),
            freed: Vec::with_capacity(operations),
            operations: Vec::with_capacity(operations),
            schedule,
            protocol,
            descriptor,
            due: None,
            framer: Framer::new(protocol),
            begins: 0,
            request: 0,
            sent: 0,
            expected: 0,
            failed: false,
            undo: None,
            waits_to_write: false,
            free_since: 0,
        }
    }

    /// When the next operation is due; None if there is none left. 0 in a closed loop.
    fn next_due(&self) -> Option<i64> {
        let next = self.starts.len();
        (next < self.schedule.operations()).then(|| self.due.as_ref().map_or(0, |due| due[next]))
    }

    fn under_way(&self) -> bool {
        self.starts.len() > self.ends.len()
    }

    /// When the operation that is under way began; 0 without one.
    fn begun(&self) -> i64 {
        self.starts.last().copied().filter(|_| self.under_way()).unwrap_or(0)
    }

    fn begin(&mut self) -> Result<(), Error> {
        self.freed.push(self.free_since);
        self.starts.push(now());
        self.send()
    }

    /// Sends what the socket takes of the current request.
    fn send(&mut self) -> Result<(), Error> {
        let (request, responses) = self.undo.map_or_else(|| self.schedule.requests[self.request], |undo| (undo, 1));
        while self.sent < request.len() {
            let rest = &request[self.sent..];
            let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
            // SAFETY: a buffer that is valid for the call.
            let sent = unsafe { libc::send(self.descriptor, rest.as_ptr().cast(), rest.len(), flags) };
            if sent < 0 {
                let error = Error::last_os_error();
                match error.kind() {
                    ErrorKind::Interrupted => continue,
                    ErrorKind::WouldBlock => break,
                    _ => return Err(error),
                }
            }
            self.sent += sent as usize;
        }
        self.waits_to_write = self.sent < request.len();
        if !self.waits_to_write {
            self.request += usize::from(self.undo.is_none());
            self.sent = 0;
            self.expected += responses;
        }
        Ok(())
    }

    /// Receives what has arrived; waits for it if `wait`. Returns whether the operation that was under way has ended.
    fn receive(&mut self, scratch: &mut [u8], wait: bool) -> Result<bool, Error> {
        let Some(count) = receive(self.descriptor, scratch, wait)? else { return Ok(false) };
        if count == 0 {
            return Err(Error::new(ErrorKind::UnexpectedEof, "the server closed the connection"));
        }
        self.received.extend_from_slice(&scratch[..count]);
        if !self.under_way() {
            return self.unrequested();
        }
        while self.expected > 0 {
            let Some(length) = self.framer.advance(&self.received[self.begins..]).map_err(malformed)? else {
                return Ok(false);
            };
            self.begins += length;
            self.expected -= 1;
            self.responses.push(self.begins);
            self.failed |= self.framer.failed;
            self.framer = Framer::new(self.protocol);
        }
        if self.waits_to_write {
            // A server may respond to a part of a request, such as the first commands of many.
            return Ok(false);
        }
        if self.begins < self.received.len() {
            self.unrequested()?;
        }
        let done = self.ends.len();
        let first = done.checked_sub(1).map_or(0, |before| self.schedule.ends[before]);
        let end = self.schedule.ends[done];
        if self.failed && self.undo.is_none() && end - first > 1 && self.protocol.undo().is_some() {
            // The rest of the operation is not sent.
            (self.undo, self.request) = (self.protocol.undo(), end);
            self.send()?;
            return Ok(false);
        }
        if self.request < end {
            self.send()?;
            return Ok(false);
        }
        (self.failed, self.undo) = (false, None);
        self.operations.push(self.responses.len());
        self.free_since = now();
        self.ends.push(self.free_since);
        Ok(true)
    }

    /// A server may send notices or pushes at any time; they are framed with the next response.
    fn unrequested(&self) -> Result<bool, Error> {
        match self.protocol {
            Protocol::Postgresql | Protocol::Redis => Ok(false),
            _ => Err(malformed("a response that no request asked for")),
        }
    }
}

fn malformed(reason: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, reason)
}

/// Drives many connections.
pub struct Driver {
    poll: Poll,
    scratch: Vec<u8>,
}

impl Driver {
    pub fn new(descriptors: &[RawFd]) -> PyResult<Driver> {
        let poll = Poll::new(descriptors.len())?;
        for (number, &descriptor) in descriptors.iter().enumerate() {
            poll.add(descriptor, number, false)?;
        }
        Ok(Driver { poll, scratch: vec![0; SCRATCH] })
    }

    /// Runs all operations within the limits. `slow` receives, about every turn with a slow operation and once after them,
    /// when the operation of each connection began. Err: a lost connection, or the exception of `slow` or of a signal handler.
    pub fn run(
        &mut self,
        py: Python<'_>,
        channels: &mut [Channel],
        limits: &Limits,
        slow: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        if channels.iter().any(|channel| channel.due.is_some()) {
            exact_sleeps();
        }
        while now() < limits.start {
            let left = limits.start - now();
            py.detach(|| {
                if left > AWAKE_NS {
                    sleep((left - AWAKE_NS).min(TURN_NS))
                }
            });
            py.check_signals()?;
        }
        // A single connection is waited for in `recv` itself.
        let _blocking = if let [alone] = channels { Some(Blocking::set(alone.descriptor)?) } else { None };
        let mut batch = Batch::new(channels, limits);
        let mut was_slow = false;
        loop {
            let over = py.detach(|| batch.turn(self));
            if let Some(slow) = slow {
                let begun: Vec<i64> = batch.channels.iter().map(Channel::begun).collect();
                let before = now() - SLOW_NS;
                let is_slow = begun.iter().any(|&moment| moment > 0 && moment < before);
                if is_slow || was_slow {
                    slow.call1((begun,))?;
                }
                was_slow = is_slow;
            }
            py.check_signals()?;
            match over {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err((number, error)) => {
                    let count = batch.channels.len();
                    return Err(PyConnectionError::new_err(format!("connection {} of {count}: {error}", number + 1)));
                }
            }
        }
    }
}

/// A socket in blocking mode, until this is dropped.
struct Blocking {
    descriptor: RawFd,
    flags: libc::c_int,
}

impl Blocking {
    fn set(descriptor: RawFd) -> Result<Blocking, Error> {
        let flags = block(descriptor)?;
        Ok(Blocking { descriptor, flags })
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        // SAFETY: no pointers. A descriptor that was closed meanwhile needs no flags.
        unsafe { libc::fcntl(self.descriptor, libc::F_SETFL, self.flags) };
    }
}

type Lost = (usize, Error);

/// The operations of one call of `run`.
struct Batch<'a> {
    channels: &'a mut [Channel],
    limits: &'a Limits,
    under_way: usize,
    received: usize,
    /// Idle connections of an open loop by the moment at which their next operation is due.
    waiting: BinaryHeap<Reverse<(i64, usize)>>,
    begun: bool,
}

impl<'a> Batch<'a> {
    fn new(channels: &'a mut [Channel], limits: &'a Limits) -> Batch<'a> {
        Batch { channels, limits, under_way: 0, received: 0, waiting: BinaryHeap::new(), begun: false }
    }

    /// Works for at most a turn. Returns whether all is done.
    fn turn(&mut self, driver: &mut Driver) -> Result<bool, Lost> {
        if !self.begun {
            self.begun = true;
            for number in 0..self.channels.len() {
                self.next(number, driver)?;
            }
        }
        let until = now() + TURN_NS;
        let alone = self.channels.len() == 1;
        loop {
            let mut moment = now();
            while let Some(&Reverse((due, number))) = self.waiting.peek() {
                if due > moment {
                    break;
                }
                self.waiting.pop();
                self.begin(number, driver)?;
                moment = now();
            }
            if self.under_way == 0 && self.waiting.is_empty() {
                return Ok(true);
            }
            if moment >= until {
                return Ok(false);
            }
            if alone && self.under_way == 1 && !self.channels[0].waits_to_write {
                // A signal ends the wait; then the turn ends, so that its handler runs.
                if !self.readable(0, driver, true)? {
                    return Ok(false);
                }
                continue;
            }
            let due = self.waiting.peek().map_or(until, |&Reverse((due, _))| due);
            let count = driver.poll.wait((due.min(until) - moment).max(0));
            for at in 0..count {
                let event = driver.poll.event(at);
                if event.writable {
                    self.writable(event.number, driver)?;
                }
                if event.readable {
                    self.readable(event.number, driver, false)?;
                }
            }
        }
    }

    /// Begins the connection's next operation, or lets it wait until that is due, if it may begin at all.
    fn next(&mut self, number: usize, driver: &Driver) -> Result<(), Lost> {
        let Some(due) = self.channels[number].next_due() else { return Ok(()) };
        if self.received >= self.limits.bytes {
            return Ok(());
        }
        let moment = now();
        if due > self.limits.deadline || (moment > self.limits.deadline && due == 0) {
            return Ok(());
        }
        if moment > self.limits.deadline && self.channels[number].free_since > self.limits.deadline {
            return Ok(());
        }
        if due <= moment {
            return self.begin(number, driver);
        }
        self.waiting.push(Reverse((due, number)));
        Ok(())
    }

    fn begin(&mut self, number: usize, driver: &Driver) -> Result<(), Lost> {
        self.under_way += 1;
        let channel = &mut self.channels[number];
        channel.begin().map_err(|error| (number, error))?;
        self.watch(number, driver)
    }

    /// Watches for room to write if the last request was not sent whole.
    fn watch(&mut self, number: usize, driver: &Driver) -> Result<(), Lost> {
        let channel = &self.channels[number];
        if channel.waits_to_write {
            let changed = driver.poll.change(channel.descriptor, number, true);
            changed.map_err(|error| (number, error))?;
        }
        Ok(())
    }

    fn writable(&mut self, number: usize, driver: &Driver) -> Result<(), Lost> {
        let channel = &mut self.channels[number];
        channel.send().map_err(|error| (number, error))?;
        if !channel.waits_to_write {
            let changed = driver.poll.change(channel.descriptor, number, false);
            changed.map_err(|error| (number, error))?;
        }
        Ok(())
    }

    /// Returns whether an operation has ended.
    fn readable(&mut self, number: usize, driver: &mut Driver, wait: bool) -> Result<bool, Lost> {
        let channel = &mut self.channels[number];
        let before = channel.received.len();
        let ended = channel.receive(&mut driver.scratch, wait).map_err(|error| (number, error))?;
        self.received += channel.received.len() - before;
        if ended {
            self.under_way -= 1;
            self.next(number, driver)?;
        } else {
            self.watch(number, driver)?;
        }
        Ok(ended)
    }
}
