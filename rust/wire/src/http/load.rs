//! The timed loop of requests of which many are in flight at once. Nothing else may be put here.
//!
//! span = end - start of a request: from before its connection is looked for to the return of the `recv` that delivered
//! the last byte of its response. It includes the time in which this thread serves other requests whose responses had
//! arrived earlier, as in other load generators. The digest of a body is computed as its pieces arrive.

use std::collections::VecDeque;

use pyo3::prelude::*;
use xxhash_rust::xxh3::{xxh3_128, Xxh3};

use super::connection::{Connection, Origin, Stage};
use super::failure::{Failure, RECEIVE, SEND, TIMEOUT};
use super::response::Response;
use super::Request;
use crate::poll::{exact_sleeps, now, Poll};

/// Longest time without a look at signals.
const TURN_NS: i64 = 50_000_000;
/// Bytes of one `recv`.
const SCRATCH: usize = 256 << 10;
/// Times that one socket is read before the others have their turn.
const READS: usize = 4;

/// Moments of a request, in ns of `now`; 0 for what did not happen.
#[derive(Clone, Copy, Default, Debug)]
pub struct Moments {
    pub start: i64,
    pub connected: i64,
    pub secured: i64,
    pub sent: i64,
    pub first: i64,
    pub end: i64,
    /// When the request's place had become free; 0 if it was from the start.
    pub freed: i64,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Received {
    pub status: u16,
    pub minor: u8,
    pub size: u64,
    pub length: Option<u64>,
    pub digest: u128,
    /// The beginning of the body, as far as the request keeps it.
    pub kept: Vec<u8>,
}

/// A request that has ended.
pub struct Ended {
    pub moments: Moments,
    /// New connections that it used.
    pub connects: u8,
    pub result: Result<Received, Failure>,
}

/// The digest of a body. One that comes in one piece needs no state.
struct Digest {
    state: Option<Box<Xxh3>>,
    value: u128,
}

impl Digest {
    fn new() -> Digest {
        Digest { state: None, value: 0 }
    }

    fn add(&mut self, piece: &[u8], last: bool) {
        if self.state.is_none() && last {
            self.value = xxh3_128(piece);
            return;
        }
        self.state.get_or_insert_with(Box::default).update(piece);
    }

    fn of(&self, size: u64) -> u128 {
        match &self.state {
            Some(state) => state.digest128(),
            None if size == 0 => xxh3_128(&[]),
            None => self.value,
        }
    }
}

/// A request that is under way.
struct Exchange {
    request: usize,
    moments: Moments,
    /// Bytes of the request that are sent.
    sent: usize,
    /// Whether the server took no more of it; a response may come nevertheless.
    refused: Option<Failure>,
    all_sent: bool,
    connects: u8,
    response: Response,
    digest: Digest,
    kept: Vec<u8>,
    /// Whether anything of the response has arrived.
    any: bool,
}

/// A place for one request at a time, with a connection to each server.
#[derive(Default)]
struct Place {
    connections: Vec<Option<Connection>>,
    exchange: Option<Exchange>,
    /// When it became free; 0 if it was from the start.
    since: i64,
}

/// Requests in flight to some servers.
pub struct Load {
    origins: Vec<Origin>,
    places: Vec<Place>,
    fresh: bool,
    patience_ns: i64,
    poll: Poll,
    scratch: Vec<u8>,
}

/// In ns of `now`, and in bytes.
pub struct Limits {
    pub deadline: i64,
    pub bytes: usize,
}

impl Load {
    pub fn new(origins: Vec<Origin>, places: usize, fresh: bool, patience_ns: i64) -> PyResult<Load> {
        let poll = Poll::new(places)?;
        let places = (0..places)
            .map(|_| Place { connections: (0..origins.len()).map(|_| None).collect(), ..Place::default() })
            .collect();
        Ok(Load { origins, places, fresh, patience_ns, poll, scratch: vec![0; SCRATCH] })
    }

    pub fn places(&self) -> usize {
        self.places.len()
    }

    pub fn origins(&self) -> usize {
        self.origins.len()
    }

    /// Drops the connections on which something arrived while no request was under way: the server's end of them, or
    /// a response that would be taken for that of the next request.
    fn drop_readable(&mut self) {
        let origins = self.origins.len();
        loop {
            let count = self.poll.wait(0);
            if count == 0 {
                return;
            }
            for at in 0..count {
                let number = self.poll.event(at).number;
                self.places[number / origins].connections[number % origins] = None;
            }
        }
    }

    /// Runs the requests within the limits, over so many places. Returns those that began, in the order in which they
    /// began, and whether they kept more bytes than the limit.
    pub fn run(
        &mut self,
        py: Python<'_>,
        places: usize,
        requests: &[Py<Request>],
        due: Option<&[i64]>,
        limits: &Limits,
    ) -> PyResult<(Vec<Ended>, bool)> {
        if due.is_some() {
            exact_sleeps();
        }
        for place in &mut self.places {
            (place.since, place.exchange) = (0, None);
        }
        self.drop_readable();
        let mut batch = Batch {
            ended: (0..requests.len()).map(|_| None).collect(),
            load: self,
            requests,
            due,
            limits,
            free: (0..places).collect(),
            patience: VecDeque::new(),
            at: 0,
            last: requests.len(),
            under_way: 0,
            kept: 0,
        };
        let result = loop {
            let over = py.detach(|| batch.turn());
            if let Err(error) = py.check_signals() {
                break Err(error);
            }
            if over {
                break Ok(());
            }
        };
        let full = batch.last < requests.len();
        let ended = std::mem::take(&mut batch.ended);
        if let Err(error) = result {
            // Responses that are still to come would be taken for those of the next requests.
            self.places.iter_mut().for_each(|place| place.connections.iter_mut().for_each(|each| *each = None));
            return Err(error);
        }
        Ok((ended.into_iter().flatten().collect(), full))
    }
}

/// The requests of one call of `run`.
struct Batch<'a> {
    load: &'a mut Load,
    requests: &'a [Py<Request>],
    due: Option<&'a [i64]>,
    limits: &'a Limits,
    ended: Vec<Option<Ended>>,
    /// Free places; the one that has been free for the longest time comes first.
    free: VecDeque<usize>,
    /// Until when each request that is under way may take, with its place, in this order.
    patience: VecDeque<(i64, usize, usize)>,
    /// The next request.
    at: usize,
    last: usize,
    under_way: usize,
    kept: usize,
}

/// How a request stands after an event.
enum Outcome {
    Goes,
    Ends(Result<Received, Failure>),
}

impl Batch<'_> {
    /// Works for at most a turn. Returns whether all is done.
    fn turn(&mut self) -> bool {
        let until = now() + TURN_NS;
        let alone = self.load.places.len() == 1;
        loop {
            let moment = self.begin_due(now());
            self.end_impatient(moment);
            let more = self.at < self.last
                && moment <= self.limits.deadline
                && self.due.map_or(true, |due| due[self.at] <= self.limits.deadline);
            if self.under_way == 0 && !more {
                return true;
            }
            if moment >= until {
                return false;
            }
            let mut wait = until;
            if let (Some(due), true, false) = (self.due, more, self.free.is_empty()) {
                wait = wait.min(due[self.at]);
            }
            if let Some(&(end, _, _)) = self.patience.front() {
                wait = wait.min(end);
            }
            if alone && self.under_way == 1 && self.waits_for_response() {
                // A signal, or the end of a turn, ends the wait.
                self.readable(0, true);
                continue;
            }
            let count = self.load.poll.wait((wait - moment).max(0));
            let origins = self.load.origins.len();
            for at in 0..count {
                let event = self.load.poll.event(at);
                let (place, origin) = (event.number / origins, event.number % origins);
                if !self.is_current(place, origin) {
                    // The server has closed a connection that is not in use, or sent what nobody asked for.
                    self.load.places[place].connections[origin] = None;
                    continue;
                }
                if event.writable {
                    let outcome = self.go_on(place);
                    self.settle(place, outcome);
                }
                if event.readable && self.is_current(place, origin) {
                    self.readable(place, false);
                }
                self.begin_due(now());
            }
        }
    }

    /// Begins requests that may begin. Returns the moment.
    fn begin_due(&mut self, mut moment: i64) -> i64 {
        while let Some(&place) = self.free.front() {
            let may = self.at < self.last
                && match self.due {
                    None => moment <= self.limits.deadline,
                    Some(due) => due[self.at] <= moment.min(self.limits.deadline),
                }
                && self.load.places[place].since <= self.limits.deadline;
            if !may {
                break;
            }
            self.free.pop_front();
            self.begin(place);
            moment = now();
        }
        moment
    }

    /// The request of this number lives as long as the batch.
    fn request(&self, number: usize) -> &'_ Request {
        self.requests[number].get()
    }

    fn begin(&mut self, place: usize) {
        let number = self.at;
        self.at += 1;
        self.under_way += 1;
        let start = now();
        let moments = Moments { start, freed: self.load.places[place].since, ..Moments::default() };
        let response = Response::new(self.request(number).bare);
        self.load.places[place].exchange = Some(Exchange {
            request: number,
            moments,
            sent: 0,
            refused: None,
            all_sent: false,
            connects: 0,
            response,
            digest: Digest::new(),
            kept: Vec::new(),
            any: false,
        });
        self.patience.push_back((start + self.load.patience_ns, place, number));
        let outcome = self.go_on(place);
        self.settle(place, outcome);
    }

    /// Ends the requests that have taken too long.
    fn end_impatient(&mut self, moment: i64) {
        while let Some(&(end, place, number)) = self.patience.front() {
            let exchange = self.load.places[place].exchange.as_ref().filter(|each| each.request == number);
            let Some(exchange) = exchange else {
                self.patience.pop_front();
                continue;
            };
            if end > moment {
                break;
            }
            self.patience.pop_front();
            let seconds = self.load.patience_ns as f64 / 1e9;
            let text = if exchange.moments.first != 0 {
                format!("no whole response within {seconds} s: {} bytes of its body came", exchange.response.size)
            } else if exchange.any {
                format!("no whole response within {seconds} s: a part of its head came")
            } else if exchange.all_sent {
                format!("no response within {seconds} s")
            } else {
                format!("the request was not sent within {seconds} s")
            };
            self.finish(place, Err(Failure::new(TIMEOUT, text)));
        }
    }

    fn is_current(&self, place: usize, origin: usize) -> bool {
        let exchange = self.load.places[place].exchange.as_ref();
        exchange.is_some_and(|exchange| self.request(exchange.request).origin == origin)
    }

    fn waits_for_response(&self) -> bool {
        let place = &self.load.places[0];
        let Some(exchange) = &place.exchange else { return false };
        let connection = place.connections[self.request(exchange.request).origin].as_ref();
        exchange.all_sent && connection.is_some_and(|connection| connection.blocking && !connection.watched)
    }

    fn settle(&mut self, place: usize, outcome: Outcome) {
        if let Outcome::Ends(result) = outcome {
            self.finish(place, result);
        }
    }

    fn finish(&mut self, place: usize, result: Result<Received, Failure>) {
        let end = now();
        let exchange = self.load.places[place].exchange.take().expect("a request is under way");
        let origin = self.request(exchange.request).origin;
        let keeps = result.is_ok() && exchange.response.keeps && exchange.all_sent;
        if self.load.fresh || !keeps {
            self.load.places[place].connections[origin] = None;
        } else if let Some(connection) = &mut self.load.places[place].connections[origin] {
            connection.used = true;
        }
        let mut moments = exchange.moments;
        moments.end = end;
        if let Ok(received) = &result {
            self.kept += received.kept.len();
            if self.kept >= self.limits.bytes {
                self.last = self.at;
            }
        }
        self.ended[exchange.request] = Some(Ended { moments, connects: exchange.connects, result });
        self.load.places[place].since = end;
        self.free.push_back(place);
        self.under_way -= 1;
    }

    /// Connects, secures and sends as far as that goes without waiting.
    fn go_on(&mut self, place: usize) -> Outcome {
        match self.try_to_send(place) {
            Ok(()) => Outcome::Goes,
            Err(failure) => self.broken(place, failure),
        }
    }

    fn try_to_send(&mut self, place: usize) -> Result<(), Failure> {
        let requests = self.requests;
        let alone = self.load.places.len() == 1;
        let Load { origins, places, poll, .. } = &mut *self.load;
        let Place { connections, exchange, .. } = &mut places[place];
        let exchange = exchange.as_mut().expect("a request is under way");
        let request = requests[exchange.request].get();
        let number = place * origins.len() + request.origin;
        let slot = &mut connections[request.origin];
        if slot.is_none() {
            exchange.connects += 1;
            let connection = Connection::open(&origins[request.origin])?;
            let watched = poll.add(connection.descriptor(), number, false);
            watched.map_err(|error| Failure::of(SEND, "can't wait for the connection", &error))?;
            *slot = Some(connection);
        }
        let connection = slot.as_mut().expect("just opened");
        if connection.stage == Stage::Connecting && connection.connected()? {
            exchange.moments.connected = now();
            connection.begin()?;
        }
        let sent = match connection.stage {
            Stage::Connecting => false,
            Stage::Handshake => connection.flush()?,
            Stage::Ready if exchange.refused.is_some() => true,
            Stage::Ready => {
                if alone && !connection.blocking {
                    let blocked = connection.block();
                    blocked.map_err(|error| Failure::of(SEND, "can't wait for the connection", &error))?;
                }
                match connection.send(&request.head, request.body(), &mut exchange.sent) {
                    Ok(true) => {
                        exchange.all_sent = true;
                        exchange.moments.sent = now();
                        true
                    }
                    Ok(false) => false,
                    // The server may have refused the rest, and say why.
                    Err(failure) if failure.number == SEND && exchange.sent > 0 => {
                        exchange.refused = Some(failure);
                        true
                    }
                    Err(failure) => return Err(failure),
                }
            }
        };
        if connection.watched == sent {
            connection.watched = !sent;
            let changed = poll.change(connection.descriptor(), number, !sent);
            changed.map_err(|error| Failure::of(SEND, "can't wait for the connection", &error))?;
        }
        Ok(())
    }

    /// A kept connection may be closed by the server at any time: a request of which nothing was answered is sent once
    /// more on a new one, as RFC 9112, section 9.3.1, allows and libcurl does.
    fn broken(&mut self, place: usize, failure: Failure) -> Outcome {
        let Place { connections, exchange, .. } = &mut self.load.places[place];
        let exchange = exchange.as_mut().expect("a request is under way");
        let slot = &mut connections[self.requests[exchange.request].get().origin];
        let used = slot.as_ref().is_some_and(|connection| connection.used);
        if used && !exchange.any && exchange.connects == 0 {
            *slot = None;
            (exchange.sent, exchange.all_sent, exchange.refused) = (0, false, None);
            return self.go_on(place);
        }
        Outcome::Ends(Err(exchange.refused.take().unwrap_or(failure)))
    }

    fn readable(&mut self, place: usize, wait: bool) {
        let outcome = match self.receive(place, wait) {
            Ok(outcome) => outcome,
            Err(failure) => self.broken(place, failure),
        };
        self.settle(place, outcome);
    }

    fn receive(&mut self, place: usize, wait: bool) -> Result<Outcome, Failure> {
        let requests = self.requests;
        for _ in 0..READS {
            let Load { places, scratch, .. } = &mut *self.load;
            let Place { connections, exchange, .. } = &mut places[place];
            let exchange = exchange.as_mut().expect("a request is under way");
            let request = requests[exchange.request].get();
            let connection = connections[request.origin].as_mut().expect("a request has a connection");
            if connection.stage == Stage::Connecting {
                self.try_to_send(place)?;
                return Ok(Outcome::Goes);
            }
            let before = connection.stage;
            let most = scratch.len();
            let mut moment = 0;
            // Whether more came than the response has.
            let mut excess = false;
            let count = {
                let Exchange { response, digest, kept, any, moments, .. } = &mut *exchange;
                connection.receive(scratch, wait, &mut |plain: &[u8]| {
                    if moment == 0 {
                        moment = now();
                    }
                    *any = true;
                    let used = response.read(plain, &mut |piece: &[u8], last| {
                        digest.add(piece, last);
                        let room = request.keeps.saturating_sub(kept.len());
                        if room > 0 {
                            kept.extend_from_slice(&piece[..piece.len().min(room)]);
                        }
                    })?;
                    if moments.first == 0 && response.status != 0 {
                        moments.first = moment;
                    }
                    excess |= used < plain.len();
                    Ok(())
                })?
            };
            let Some(count) = count else { return Ok(Outcome::Goes) };
            if count == 0 && !exchange.response.done() {
                exchange.response.end()?;
            }
            if exchange.response.done() {
                if excess {
                    return Err(Failure::new(RECEIVE, "the server sent more than its response has"));
                }
                let response = &exchange.response;
                return Ok(Outcome::Ends(Ok(Received {
                    status: response.status,
                    minor: response.minor,
                    size: response.size,
                    length: response.length,
                    digest: exchange.digest.of(response.size),
                    kept: std::mem::take(&mut exchange.kept),
                })));
            }
            if before == Stage::Handshake {
                if connection.stage == Stage::Ready {
                    exchange.moments.secured = now();
                }
                self.try_to_send(place)?;
                return Ok(Outcome::Goes);
            }
            if count < most || wait {
                return Ok(Outcome::Goes);
            }
        }
        Ok(Outcome::Goes)
    }
}
