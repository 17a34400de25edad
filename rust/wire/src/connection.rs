//! What Python sees: the connections of one thread, and what was received on them.

use std::os::fd::RawFd;

use dyno_buffer::column;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyTuple};

use crate::decode;
use crate::driver::{Channel, Driver, Limits, Request, Schedule};
use crate::framing::Protocol;

/// Connections that one thread drives. The sockets stay the caller's, who closes them after this object is gone.
#[pyclass(unsendable)]
pub struct Wire {
    protocol: Protocol,
    descriptors: Vec<RawFd>,
    driver: Driver,
    /// The loaded requests. `kept` holds the objects whose bytes they refer to.
    channels: Vec<Channel>,
    kept: Vec<Py<PyBytes>>,
}

#[pymethods]
impl Wire {
    /// `protocol`: 'postgresql', 'mysql', 'redis' or 'mongodb'. `descriptors`: connected sockets that have nothing to read.
    #[new]
    fn new(protocol: &str, descriptors: Vec<RawFd>) -> PyResult<Wire> {
        let Some(protocol) = Protocol::named(protocol) else {
            return Err(PyValueError::new_err(format!("unknown protocol {protocol:?}")));
        };
        let driver = Driver::new(&descriptors)?;
        Ok(Wire { protocol, descriptors, driver, channels: Vec::new(), kept: Vec::new() })
    }

    /// Nanoseconds on the clock of `run`.
    #[staticmethod]
    fn now() -> i64 {
        crate::poll::now()
    }

    /// Sets the requests of the next `run`: for each connection a list of operations, each the bytes of one request with
    /// one response, or a tuple of pairs of a request and its number of responses, which are sent one after the other.
    fn load(&mut self, requests: &Bound<'_, PyList>) -> PyResult<()> {
        if requests.len() != self.descriptors.len() {
            return Err(PyValueError::new_err("there must be a list of requests for each connection"));
        }
        self.channels.clear();
        self.kept.clear();
        for (operations, &descriptor) in requests.iter().zip(&self.descriptors) {
            let schedule = Schedule::of(operations.cast::<PyList>()?, &mut self.kept)?;
            self.channels.push(Channel::new(self.protocol, descriptor, schedule));
        }
        Ok(())
    }

    /// Sends the loaded requests of each connection, one after the other, and receives the responses. Where the protocol has
    /// transactions, the rest of an operation of several requests is left out after an error response, and ROLLBACK is sent.
    ///
    /// `due`: for each connection the moments, in ns of `now`, before which the operations don't begin; None: each begins
    /// when the one before it has ended. None begins before `start_ns`, nor after `deadline_ns`, nor after `most_bytes` were
    /// received; those that have begun are waited for.
    ///
    /// `slow` is called now and then while operations take more than a second, and once after them, with the moment at which
    /// the operation of each connection began (0: none is under way).
    ///
    /// Returns what was received on each connection, in the same order. Raises ConnectionError if a connection is lost or
    /// a response is malformed.
    #[pyo3(signature = (due, start_ns, deadline_ns, most_bytes, slow=None))]
    fn run(
        &mut self,
        py: Python<'_>,
        due: Option<Vec<Vec<i64>>>,
        start_ns: i64,
        deadline_ns: i64,
        most_bytes: usize,
        slow: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Answers>> {
        let mut channels = std::mem::take(&mut self.channels);
        for (number, channel) in channels.iter_mut().enumerate() {
            if let Some(due) = &due {
                match due.get(number) {
                    Some(due) if due.len() >= channel.schedule.operations() => channel.due = Some(due.clone()),
                    _ => return Err(PyValueError::new_err("there are fewer moments than operations")),
                }
            }
        }
        let limits = Limits { start: start_ns, deadline: deadline_ns, bytes: most_bytes };
        self.driver.run(py, &mut channels, &limits, slow.as_ref())?;
        Ok(channels.into_iter().map(|channel| Answers::of(self.protocol, channel)).collect())
    }
}

impl Schedule {
    /// `kept` holds a reference to each request, so that its bytes stay valid while the interpreter's lock is released.
    fn of(operations: &Bound<'_, PyList>, kept: &mut Vec<Py<PyBytes>>) -> PyResult<Schedule> {
        let mut schedule = Schedule::default();
        let mut add = |request: &Bound<'_, PyAny>, responses: usize| -> PyResult<Request> {
            let bytes = request.cast::<PyBytes>()?;
            kept.push(bytes.clone().unbind());
            let content = bytes.as_bytes();
            if content.is_empty() || responses == 0 {
                return Err(PyValueError::new_err("a request has no bytes, or no response"));
            }
            // SAFETY: the object is immutable and referenced by `kept`, which outlives the schedule.
            Ok((unsafe { std::slice::from_raw_parts(content.as_ptr(), content.len()) }, responses))
        };
        for operation in operations.iter() {
            if let Ok(several) = operation.cast::<PyTuple>() {
                if several.is_empty() {
                    return Err(PyTypeError::new_err("an operation has no request"));
                }
                for request in several.iter() {
                    let (bytes, responses): (Bound<'_, PyAny>, usize) = request.extract()?;
                    schedule.requests.push(add(&bytes, responses)?);
                }
            } else {
                schedule.requests.push(add(&operation, 1)?);
            }
            schedule.ends.push(schedule.requests.len());
        }
        Ok(schedule)
    }
}

/// What was received on a connection in one run: the responses as bytes, and when each operation began and ended.
#[pyclass]
pub struct Answers {
    protocol: Protocol,
    bytes: Vec<u8>,
    /// Where each response ends in `bytes`.
    responses: Vec<usize>,
    /// Where each operation that was done ends in `responses`.
    operations: Vec<usize>,
    starts: Vec<i64>,
    ends: Vec<i64>,
    freed: Vec<i64>,
}

impl Answers {
    fn of(protocol: Protocol, channel: Channel) -> Answers {
        let Channel { received, responses, operations, starts, ends, freed, .. } = channel;
        Answers { protocol, bytes: received, responses, operations, starts, ends, freed }
    }
}

#[pymethods]
impl Answers {
    fn __len__(&self) -> usize {
        self.operations.len()
    }

    /// Returns, as int64 in ns of `Wire.now`, when each operation began, when it ended, and when its connection had become
    /// free (0: it was from the start).
    fn times<'py>(&self, py: Python<'py>) -> PyResult<[Bound<'py, PyByteArray>; 3]> {
        let all = |moments: &[i64]| column(py, moments.iter().copied());
        Ok([all(&self.starts)?, all(&self.ends)?, all(&self.freed)?])
    }

    /// Returns the answer of each operation: the decoded response, or a list of them if the operation has several. An error
    /// response is `error(text)`, the last of the operation except for that to ROLLBACK.
    fn decode<'py>(&self, py: Python<'py>, error: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let answers = PyList::empty(py);
        let (mut response, mut at) = (0, 0);
        for &end in &self.operations {
            let several = PyList::empty(py);
            for &until in &self.responses[response..end] {
                several.append(decode::response(py, self.protocol, &self.bytes[at..until], error)?)?;
                at = until;
            }
            answers.append(if end - response == 1 { several.get_item(0)? } else { several.into_any() })?;
            response = end;
        }
        Ok(answers)
    }
}
