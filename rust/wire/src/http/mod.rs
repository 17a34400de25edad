//! HTTP/1.1 with many requests in flight: what Python sees.

mod connection;
mod failure;
mod load;
mod response;
mod tls;

use std::net::{IpAddr, SocketAddr};

use dyno_buffer::{column, Bytes};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList};
use xxhash_rust::xxh3::Xxh3;

use connection::Origin;
use load::{Ended, Limits, Load, Moments};

/// Adds the module's contents to `module`.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Http>()?;
    module.add_class::<Request>()?;
    module.add_class::<Responses>()?;
    module.add_class::<BodyDigest>()
}

/// A request, built before the clock starts. `origin`: the number of its server. `head`: its first line and headers, with
/// the empty line. `keeps`: so many bytes of the response's body are kept. `bare`: the response has no body, as to HEAD.
#[pyclass(frozen, name = "HttpRequest")]
pub struct Request {
    origin: usize,
    head: Vec<u8>,
    content: Option<Bytes>,
    keeps: usize,
    bare: bool,
}

impl Request {
    fn body(&self) -> &[u8] {
        self.content.as_ref().map_or(&[], Bytes::as_slice)
    }
}

#[pymethods]
impl Request {
    #[new]
    #[pyo3(signature = (origin, head, body=None, keeps=0, bare=false))]
    fn new(
        origin: usize,
        head: &[u8],
        body: Option<Bound<'_, PyAny>>,
        keeps: usize,
        bare: bool,
    ) -> PyResult<Request> {
        let content = body.map(|body| Bytes::of(&body)).transpose()?;
        Ok(Request { origin, head: head.to_vec(), content, keeps, bare })
    }
}

/// Requests in flight to some servers, whose connections are kept from one `run` to the next, unless they are `fresh`.
#[pyclass(unsendable)]
pub struct Http {
    load: Load,
}

#[pymethods]
impl Http {
    /// `origins`: of each server its host's name, its IP address and its port, and whether it has TLS. `authorities`: the
    /// certificates to trust, in PEM; None: any. `own`: the client's certificate and key. `patience_ns`: the longest time of
    /// a request.
    #[new]
    #[pyo3(signature = (origins, places, fresh, patience_ns, authorities=None, own=None))]
    fn new(
        origins: Vec<(String, String, u16, bool)>,
        places: usize,
        fresh: bool,
        patience_ns: i64,
        authorities: Option<&[u8]>,
        own: Option<(Vec<u8>, Vec<u8>)>,
    ) -> PyResult<Http> {
        if origins.is_empty() || places == 0 {
            return Err(PyValueError::new_err("there must be a server and a place"));
        }
        let secure = origins.iter().any(|(_, _, _, secure)| *secure);
        let own = own.as_ref().map(|(certificate, key)| (certificate.as_slice(), key.as_slice()));
        let config = if secure { Some(tls::configure(authorities, own)?) } else { None };
        let mut all = Vec::new();
        for (host, address, port, secure) in origins {
            let address: IpAddr = address.parse().map_err(|_| PyValueError::new_err("expected an IP address"))?;
            let tls = match &config {
                Some(config) if secure => Some((config.clone(), tls::server_name(&host)?)),
                _ => None,
            };
            all.push(Origin { address: SocketAddr::new(address, port), tls });
        }
        Ok(Http { load: Load::new(all, places, fresh, patience_ns)? })
    }

    /// Makes the requests, up to `places` at once. The place that has been free for the longest time is used first.
    ///
    /// `due`: the moments, in ns of `Wire.now`, before which the requests don't begin. None begins after
    /// `deadline_ns`, nor after `most_bytes` of bodies were kept; those that have begun are waited for, as long as the
    /// patience lasts.
    fn run(
        &mut self,
        py: Python<'_>,
        places: usize,
        requests: Vec<Py<Request>>,
        due: Option<Vec<i64>>,
        deadline_ns: i64,
        most_bytes: usize,
    ) -> PyResult<Responses> {
        if places == 0 || places > self.load.places() {
            return Err(PyValueError::new_err("there are fewer places"));
        }
        if requests.iter().any(|request| request.get().origin >= self.load.origins()) {
            return Err(PyValueError::new_err("there are fewer servers"));
        }
        if due.as_ref().is_some_and(|due| due.len() < requests.len()) {
            return Err(PyValueError::new_err("there are fewer moments than requests"));
        }
        let limits = Limits { deadline: deadline_ns, bytes: most_bytes };
        let (ended, full) = self.load.run(py, places, &requests, due.as_deref(), &limits)?;
        Ok(Responses { ended, full })
    }
}

/// The responses and failures of the requests that began, in the order in which they began.
#[pyclass]
pub struct Responses {
    ended: Vec<Ended>,
    /// Whether the kept bodies had filled the memory before all requests began.
    #[pyo3(get)]
    full: bool,
}

/// Status, version (the x of 1.x), bytes of the body, its digest, the kept part of it, the length that the head states,
/// and the new connections of a response.
type Answer<'py> = (u16, u8, u64, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Option<u64>, u8);

#[pymethods]
impl Responses {
    fn __len__(&self) -> usize {
        self.ended.len()
    }

    /// Returns, as int64 in ns of `Wire.now`, of each request: when it began, was connected, was secured, was sent, had its
    /// first byte, had its last, and when its place had become free. 0: it did not happen.
    fn moments<'py>(&self, py: Python<'py>) -> PyResult<[Bound<'py, PyByteArray>; 7]> {
        let all = |pick: fn(&Moments) -> i64| column(py, self.ended.iter().map(move |ended| pick(&ended.moments)));
        Ok([
            all(|moments| moments.start)?,
            all(|moments| moments.connected)?,
            all(|moments| moments.secured)?,
            all(|moments| moments.sent)?,
            all(|moments| moments.first)?,
            all(|moments| moments.end)?,
            all(|moments| moments.freed)?,
        ])
    }

    /// Returns of each request its response, or the number and the text of its failure.
    fn answers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let answers = PyList::empty(py);
        for Ended { connects, result, .. } in &self.ended {
            match result {
                Ok(received) => {
                    let answer: Answer<'py> = (
                        received.status,
                        received.minor,
                        received.size,
                        PyBytes::new(py, &received.digest.to_be_bytes()),
                        PyBytes::new(py, &received.kept),
                        received.length,
                        *connects,
                    );
                    answers.append(answer)?;
                }
                Err(failure) => answers.append((failure.number, failure.text.as_str()))?,
            }
        }
        Ok(answers)
    }
}

/// XXH3 with 128 bits, with the methods of hashlib's digests. It finds accidents, not forgeries.
#[pyclass(unsendable)]
pub struct BodyDigest {
    state: Box<Xxh3>,
}

#[pymethods]
impl BodyDigest {
    #[new]
    #[pyo3(signature = (data=None))]
    fn new(data: Option<Bound<'_, PyAny>>) -> PyResult<BodyDigest> {
        let mut digest = BodyDigest { state: Box::default() };
        if let Some(data) = data {
            digest.update(&data)?;
        }
        Ok(digest)
    }

    fn update(&mut self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        self.state.update(Bytes::of(data)?.as_slice());
        Ok(())
    }

    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.state.digest128().to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_128;

    #[test]
    fn digests_are_those_of_the_specification() {
        // xxHash's own tests: XXH3_128bits of nothing, with the seed 0.
        assert_eq!(xxh3_128(b""), 0x99aa06d3014798d86001c324468d497f);
    }
}
