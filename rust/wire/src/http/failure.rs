//! Why a request failed: one line, with the number that libcurl has for the kind.

use std::io::{Error, ErrorKind};

pub const CONNECT: u16 = 7;
pub const MALFORMED: u16 = 8;
pub const PARTIAL: u16 = 18;
pub const TIMEOUT: u16 = 28;
pub const TLS: u16 = 35;
pub const NOTHING: u16 = 52;
pub const SEND: u16 = 55;
pub const RECEIVE: u16 = 56;
pub const OWN_CERTIFICATE: u16 = 58;
pub const CERTIFICATE: u16 = 60;
pub const TOO_LARGE: u16 = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// libcurl's error number.
    pub number: u16,
    pub text: String,
}

impl Failure {
    pub fn new(number: u16, text: impl Into<String>) -> Failure {
        Failure { number, text: text.into() }
    }

    /// `what`: what was tried.
    pub fn of(number: u16, what: &str, error: &Error) -> Failure {
        let text = match error.kind() {
            ErrorKind::ConnectionRefused => "the connection was refused".into(),
            ErrorKind::ConnectionReset => "the server reset the connection".into(),
            ErrorKind::BrokenPipe => "the server closed the connection".into(),
            ErrorKind::AddrNotAvailable => "no local port is free".into(),
            _ => error.to_string(),
        };
        Failure::new(number, format!("{what}: {text}"))
    }
}
