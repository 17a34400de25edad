//! The timed loops. Nothing else may be put here. The Python loops of `dyno.measure.loop` keep the same contract.
//!
//! Per operation: a stamp, a call of the engine's own callable by the interpreter's vectorcall, a stamp.
//!
//! span = end - start: the call, the passing of its argument, and one reading of the clock
//!
//! Between spans: the answer and the stamps are stored, and comparisons check whether the time is up or it is another
//! thread's turn. No memory is allocated.

use pyo3::exceptions::{PyException, PyMemoryError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::calling::{vectorcall, ONE};
use crate::clock::Counter;
use crate::pacing::{exact_sleeps, wait_until};
use crate::stamps::Stamps;

/// How long other threads wait for their turn. It is longer than the interpreter's switch interval of 5 ms, after which a
/// waiting thread requests the lock: a lock that is released earlier is taken again by the same thread, and the other's
/// interval begins anew.
const TURN_NS: u64 = 10_000_000;

/// The input of one slice's loop. The caller holds the references while the loop runs.
pub struct Slice<'py> {
    pub calls: Bound<'py, PyTuple>,
    pub arguments: Bound<'py, PyTuple>,
    pub failed: Bound<'py, PyAny>,
}

/// In ticks: no operation begins before `start`, and the first that ends after `deadline` is the last.
pub struct Limits {
    pub start: u64,
    pub deadline: u64,
}

/// Calls one operation after the other until the first that ends after the deadline. With `due`, no operation begins
/// before it is due, and none that is due after the deadline.
pub fn steps<'py, C: Counter>(
    py: Python<'py>,
    slice: &Slice<'py>,
    due: Option<&[i64]>,
    limits: &Limits,
    stamps: &mut Stamps,
) -> PyResult<Bound<'py, PyList>> {
    let (calls, arguments) = (items(&slice.calls), slice.arguments.as_ptr());
    let operations = slice.arguments.len();
    let vectorcall = vectorcall();
    let scale = stamps.scale;
    let turn = scale.ticks_of_span(TURN_NS);
    let mut answers = Answers::with_room(py, operations)?;
    let (mut next, deadline) = (0, limits.deadline);
    if due.is_some() {
        exact_sleeps();
    }
    // Waits here, since a moment in `due` would be checked for each operation.
    wait_until::<C>(py, limits.start, &scale)?;
    let mut yields = C::now() + turn;
    for at in 0..operations {
        if let Some(due) = due {
            let when = scale.ticks(due[at]);
            if when > deadline {
                break;
            }
            wait_until::<C>(py, when, &scale)?;
        }
        let call = calls[next];
        next = if next + 1 == calls.len() { 0 } else { next + 1 };
        // SAFETY: within the tuple, which does not change.
        let argument = unsafe { ffi::PyTuple_GetItem(arguments, at as ffi::Py_ssize_t) };
        let mut passed = [std::ptr::null_mut(), argument];
        let start = C::now();
        // SAFETY: both are live objects; the callee may use the slot before the argument.
        let answer = unsafe { vectorcall(call, passed.as_mut_ptr().add(1), ONE, std::ptr::null_mut()) };
        let end = C::now();
        stamps.pairs.push((start, end));
        answers.push(if answer.is_null() { failure(py, slice)? } else { answer });
        if end > deadline {
            break;
        }
        if end > yields {
            py.check_signals()?;
            py.detach(|| ());
            yields = C::now() + turn;
        }
    }
    answers.finish()
}

/// The tuple keeps them alive.
fn items(tuple: &Bound<'_, PyTuple>) -> Vec<*mut ffi::PyObject> {
    tuple.iter_borrowed().map(|item| item.as_ptr()).collect()
}

/// Returns the answer of an operation that raised. Err for an exception that ends the phase.
#[cold]
fn failure(py: Python<'_>, slice: &Slice<'_>) -> PyResult<*mut ffi::PyObject> {
    let error = PyErr::fetch(py);
    if error.is_instance_of::<PyException>(py) && !error.is_instance_of::<PyMemoryError>(py) {
        return Ok(slice.failed.call1((error.into_value(py),))?.into_ptr());
    }
    Err(error)
}

/// A list of full length whose places are filled one by one.
struct Answers<'py> {
    list: Bound<'py, PyList>,
    filled: ffi::Py_ssize_t,
}

impl<'py> Answers<'py> {
    fn with_room(py: Python<'py>, operations: usize) -> PyResult<Answers<'py>> {
        // SAFETY: a new list or null; its places are null, which the interpreter allows.
        let list = unsafe {
            let new = ffi::PyList_New(operations as ffi::Py_ssize_t);
            Bound::from_owned_ptr_or_err(py, new)?.cast_into_unchecked()
        };
        Ok(Answers { list, filled: 0 })
    }

    #[inline(always)]
    fn push(&mut self, answer: *mut ffi::PyObject) {
        // SAFETY: the place is within the list and still null; the list takes the reference.
        unsafe { ffi::PyList_SetItem(self.list.as_ptr(), self.filled, answer) };
        self.filled += 1;
    }

    /// Returns the list, cut to the filled places.
    fn finish(self) -> PyResult<Bound<'py, PyList>> {
        let whole = self.list.len();
        if (self.filled as usize) < whole {
            self.list.del_slice(self.filled as usize, whole)?;
        }
        Ok(self.list)
    }
}
