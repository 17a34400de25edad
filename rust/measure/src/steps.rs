//! The timed loops. Nothing else may be put here. The Python loops of `dyno.measure.loop` keep the same contract.
//!
//! Per operation: a stamp, a call of the engine's own callable by the interpreter's vectorcall, a stamp.
//!
//! span = end - start: the call, the passing of its argument, and one reading of the clock
//!
//! Between spans: the answer and the stamps are stored, and one comparison says whether the time is up or another
//! thread is to have its turn. No memory is taken.

use pyo3::exceptions::{PyException, PyMemoryError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::calling::{vectorcall, ONE};
use crate::clock::Counter;
use crate::pacing::{exact_sleeps, wait_until};
use crate::stamps::Stamps;

/// How long other threads wait for their turn. Longer than the interpreter's switch interval of 5 ms, after which a
/// waiting thread asks for the lock: given up before that, it is taken again by the one who gave it up, and the other's
/// interval begins anew.
const TURN_NS: u64 = 10_000_000;

/// What one slice's loop works on. The references are kept by the caller for as long as the loop runs.
pub struct Slice<'py> {
    pub calls: Bound<'py, PyTuple>,
    pub arguments: Bound<'py, PyTuple>,
    pub failed: Bound<'py, PyAny>,
}

/// In ticks: none begins before `start`, and the first that ends after `deadline` is the last.
pub struct Limits {
    pub start: u64,
    pub deadline: u64,
}

/// Calls one operation after the other until the first that ends after the deadline; with `due`, none before its time,
/// and none that is due after the deadline.
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
    // Waited for here and not as a moment that is due: that would be looked at for each operation.
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
        // SAFETY: both are live objects; the place before the argument may be used by the callee.
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

/// What stands in the answers for an operation that raised. Err for what is no error of an operation.
#[cold]
fn failure(py: Python<'_>, slice: &Slice<'_>) -> PyResult<*mut ffi::PyObject> {
    let error = PyErr::fetch(py);
    if error.is_instance_of::<PyException>(py) && !error.is_instance_of::<PyMemoryError>(py) {
        return Ok(slice.failed.call1((error.into_value(py),))?.into_ptr());
    }
    Err(error)
}

/// A list that was made with all its places, which are filled one by one.
struct Answers<'py> {
    list: Bound<'py, PyList>,
    filled: ffi::Py_ssize_t,
}

impl<'py> Answers<'py> {
    fn with_room(py: Python<'py>, operations: usize) -> PyResult<Answers<'py>> {
        // SAFETY: a new list or null; its places are null, which the interpreter's own code allows for.
        let list = unsafe {
            let new = ffi::PyList_New(operations as ffi::Py_ssize_t);
            Bound::from_owned_ptr_or_err(py, new)?.cast_into_unchecked()
        };
        Ok(Answers { list, filled: 0 })
    }

    #[inline(always)]
    fn push(&mut self, answer: *mut ffi::PyObject) {
        // SAFETY: the place is within the list and still null; the list takes over the reference.
        unsafe { ffi::PyList_SetItem(self.list.as_ptr(), self.filled, answer) };
        self.filled += 1;
    }

    /// The list, cut to what was filled.
    fn finish(self) -> PyResult<Bound<'py, PyList>> {
        let whole = self.list.len();
        if (self.filled as usize) < whole {
            self.list.del_slice(self.filled as usize, whole)?;
        }
        Ok(self.list)
    }
}
