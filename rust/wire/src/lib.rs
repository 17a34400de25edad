//! Native load for servers: one thread drives many connections, each with one request under way, and times every
//! operation from before its first byte is sent until its last byte was received.
//!
//! For servers of SQL and keys, a client library connects, authenticates and prepares statements; its socket is then
//! handed over, and has no TLS. Requests are encoded before the clock starts. While it runs, a response is only framed:
//! where it ends, and whether it is an error. It is decoded after the clock has stopped.
//!
//! `http` connects itself, also by TLS, since new connections are measured too. It keeps no bodies, but their digests.

mod bson;
mod connection;
mod decode;
mod driver;
mod encode;
mod framing;
mod http;
mod poll;

use pyo3::prelude::*;

pub use connection::{Answers, Wire};

/// Adds the module's contents to `module`.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Wire>()?;
    module.add_class::<Answers>()?;
    http::register(module)?;
    module.add_function(wrap_pyfunction!(encode::postgresql, module)?)?;
    module.add_function(wrap_pyfunction!(encode::mysql, module)?)?;
    module.add_function(wrap_pyfunction!(encode::redis, module)?)?;
    module.add_function(wrap_pyfunction!(encode::mongodb, module)?)
}
