//! Native load for servers: one thread drives many connections, each with one request under way, and times every
//! operation from before its first byte is sent until its last byte was received.
//!
//! A client library connects, authenticates and prepares statements; its socket is then handed over. Nothing here
//! performs a handshake, authenticates or speaks TLS. Requests are encoded before the clock starts. While it runs, a
//! response is only framed: where it ends, and whether it is an error. It is decoded after the clock has stopped.

mod bson;
mod connection;
mod decode;
mod driver;
mod encode;
mod framing;

use pyo3::prelude::*;

pub use connection::{Answers, Wire};

/// Adds the module's contents to `module`.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Wire>()?;
    module.add_class::<Answers>()?;
    module.add_function(wrap_pyfunction!(encode::postgresql, module)?)?;
    module.add_function(wrap_pyfunction!(encode::mysql, module)?)?;
    module.add_function(wrap_pyfunction!(encode::redis, module)?)?;
    module.add_function(wrap_pyfunction!(encode::mongodb, module)?)
}
