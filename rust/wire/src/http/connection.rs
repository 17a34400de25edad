//! One connection to a server, plain or with TLS: it connects, sends and receives, and never waits.

use std::io::{Error, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::ClientConfig;
use socket2::{Domain, MsgHdr, Protocol, Socket, Type};

use super::failure::{Failure, CONNECT, RECEIVE, SEND};
use super::tls::Tls;
use crate::poll::{block, receive};

/// Bytes of a request that are encrypted at once.
const ENCRYPTED: usize = 64 << 10;
/// How long a blocking `recv` waits at most: between two looks at signals and at the patience of requests.
const TURN: Duration = Duration::from_millis(50);

/// A server: where it is, and how it is trusted.
pub struct Origin {
    pub address: SocketAddr,
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// How far a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    Connecting,
    Handshake,
    Ready,
}

pub struct Connection {
    socket: Socket,
    tls: Option<Tls>,
    pub stage: Stage,
    /// Whether a response came on it before.
    pub used: bool,
    /// Whether the loop watches for room to write.
    pub watched: bool,
    pub blocking: bool,
}

impl Connection {
    pub fn open(origin: &Origin) -> Result<Connection, Failure> {
        let failed = |error: Error| Failure::of(CONNECT, "can't connect", &error);
        let socket =
            Socket::new(Domain::for_address(origin.address), Type::STREAM.nonblocking(), Some(Protocol::TCP));
        let socket = socket.map_err(failed)?;
        socket.set_tcp_nodelay(true).map_err(failed)?;
        match socket.connect(&origin.address.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(failed(error)),
            _ => {}
        }
        let tls = match &origin.tls {
            None => None,
            Some((config, name)) => Some(Tls::new(config, name.clone())?),
        };
        let stage = Stage::Connecting;
        Ok(Connection { socket, tls, stage, used: false, watched: false, blocking: false })
    }

    pub fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Whether the connection is there by now.
    pub fn connected(&self) -> Result<bool, Failure> {
        let failed = |error: Error| Failure::of(CONNECT, "can't connect", &error);
        if self.socket.peer_addr().is_ok() {
            return Ok(true);
        }
        match self.socket.take_error() {
            Ok(None) => Ok(false),
            Ok(Some(error)) | Err(error) => Err(failed(error)),
        }
    }

    /// Begins what follows the connecting.
    pub fn begin(&mut self) -> Result<(), Failure> {
        self.stage = if self.tls.is_some() { Stage::Handshake } else { Stage::Ready };
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => tls.read(&mut [], &mut |_| Ok(())).map(|_| ()),
        }
    }

    /// From now on `receive` with `wait` waits for the server, for as long as a turn.
    pub fn block(&mut self) -> Result<(), Error> {
        self.socket.set_read_timeout(Some(TURN))?;
        block(self.descriptor())?;
        self.blocking = true;
        Ok(())
    }

    /// Sends what the socket takes of a request, from `sent` on. Returns whether all is sent.
    pub fn send(&mut self, head: &[u8], body: &[u8], sent: &mut usize) -> Result<bool, Failure> {
        loop {
            if !self.flush()? {
                return Ok(false);
            }
            let (head_rest, body_rest) = match head.get(*sent..) {
                Some(rest) => (rest, body),
                None => (&[][..], &body[*sent - head.len()..]),
            };
            if head_rest.is_empty() && body_rest.is_empty() {
                return Ok(true);
            }
            if let Some(tls) = &mut self.tls {
                let piece =
                    if head_rest.is_empty() { &body_rest[..body_rest.len().min(ENCRYPTED)] } else { head_rest };
                tls.write(piece)?;
                *sent += piece.len();
                continue;
            }
            let parts = [IoSlice::new(head_rest), IoSlice::new(body_rest)];
            let message = MsgHdr::new().with_buffers(&parts);
            match self.socket.sendmsg(&message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) {
                Ok(count) => *sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(Failure::of(SEND, "can't send the request", &error)),
            }
        }
    }

    /// Sends the records that wait, if the connection has TLS. Returns whether all are sent.
    pub fn flush(&mut self) -> Result<bool, Failure> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.sent < tls.outgoing.len() {
            match self.socket.send_with_flags(&tls.outgoing[tls.sent..], libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) {
                Ok(count) => tls.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(Failure::of(SEND, "can't send", &error)),
            }
        }
        tls.outgoing.clear();
        tls.sent = 0;
        Ok(true)
    }

    /// Receives once, and passes on what has arrived, decrypted. Returns how many bytes came from the socket: None if
    /// nothing has arrived, 0 if the server has closed the connection.
    pub fn receive(
        &mut self,
        scratch: &mut [u8],
        wait: bool,
        plain: &mut impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<Option<usize>, Failure> {
        let descriptor = self.socket.as_raw_fd();
        let failed = |error: Error| Failure::of(RECEIVE, "can't receive the response", &error);
        let Some(tls) = &mut self.tls else {
            let count = receive(descriptor, scratch, wait).map_err(failed)?;
            if let Some(count) = count {
                if count > 0 {
                    plain(&scratch[..count])?;
                }
            }
            return Ok(count);
        };
        let before = tls.incoming.len();
        scratch[..before].copy_from_slice(&tls.incoming);
        let count = receive(descriptor, &mut scratch[before..], wait).map_err(failed)?;
        let Some(count) = count else { return Ok(None) };
        if count == 0 {
            return Ok(Some(0));
        }
        let all = before + count;
        let used = tls.read(&mut scratch[..all], plain)?;
        tls.incoming.clear();
        tls.incoming.extend_from_slice(&scratch[used..all]);
        if tls.ready && self.stage == Stage::Handshake {
            self.stage = Stage::Ready;
        }
        Ok(Some(if tls.closed { 0 } else { count }))
    }
}
