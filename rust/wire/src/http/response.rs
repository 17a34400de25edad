//! One response of HTTP/1.1, read in pieces of any size. It keeps no more of it than a head of `MOST_HEAD` bytes.

use httparse::Status;

use super::failure::{Failure, MALFORMED, NOTHING, PARTIAL, TOO_LARGE};

/// Longest head, and longest trailers or line of a chunk's size.
pub const MOST_HEAD: usize = 64 << 10;
const MOST_LINE: usize = 4 << 10;
const MOST_HEADERS: usize = 128;
const SWITCHING: u16 = 101;
const NO_CONTENT: u16 = 204;
const NOT_MODIFIED: u16 = 304;

/// The part that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    /// So many bytes of the body.
    Length(u64),
    /// The body, until the server closes the connection.
    UntilClosed,
    ChunkSize,
    /// So many bytes of a chunk.
    Chunk(u64),
    /// So many bytes of the line end after a chunk.
    ChunkEnd(u8),
    Trailers,
    Done,
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// Of version 1.x.
    pub minor: u8,
    /// Bytes of the body, by its head; None if the head does not say so.
    pub length: Option<u64>,
    /// Bytes of the body that have arrived.
    pub size: u64,
    /// Whether the connection can be used again.
    pub keeps: bool,
    state: State,
    /// Whether it is the response to HEAD.
    bare: bool,
    /// The beginning of a head or of a line that has not arrived whole.
    partial: Vec<u8>,
}

impl Response {
    pub fn new(bare: bool) -> Response {
        let partial = Vec::new();
        Response { status: 0, minor: 1, length: None, size: 0, keeps: true, state: State::Head, bare, partial }
    }

    pub fn done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads bytes that have arrived, and passes on those of the body; the second argument says whether they are its
    /// last. Returns how many bytes belong to the response.
    pub fn read(&mut self, bytes: &[u8], body: &mut impl FnMut(&[u8], bool)) -> Result<usize, Failure> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Done {
            let rest = &bytes[at..];
            at += match self.state {
                State::Head => self.head(rest)?,
                State::Length(left) => {
                    let count = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let left = left - count as u64;
                    self.state = if left == 0 { State::Done } else { State::Length(left) };
                    self.take(&rest[..count], left == 0, body)
                }
                State::UntilClosed => self.take(rest, false, body),
                State::ChunkSize => self.chunk_size(rest)?,
                State::Chunk(left) => {
                    let count = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let left = left - count as u64;
                    self.state = if left == 0 { State::ChunkEnd(2) } else { State::Chunk(left) };
                    self.take(&rest[..count], false, body)
                }
                State::ChunkEnd(left) => {
                    if rest[0] != if left == 2 { b'\r' } else { b'\n' } {
                        return Err(Failure::new(MALFORMED, "a chunk is longer than its size says"));
                    }
                    self.state = if left == 2 { State::ChunkEnd(1) } else { State::ChunkSize };
                    1
                }
                State::Trailers => self.trailers(rest)?,
                State::Done => 0,
            };
        }
        Ok(at)
    }

    /// The server has closed the connection.
    pub fn end(&mut self) -> Result<(), Failure> {
        let text = match (self.state, self.length) {
            (State::UntilClosed | State::Done, _) => {
                self.state = State::Done;
                self.keeps = false;
                return Ok(());
            }
            (State::Head, _) if self.partial.is_empty() => {
                return Err(Failure::new(NOTHING, "the server closed the connection without a response"));
            }
            (State::Head, _) => "the server closed the connection within the head of its response".into(),
            (_, Some(length)) => {
                format!("the server closed the connection after {} of {length} bytes of the body", self.size)
            }
            _ => format!("the server closed the connection within a chunk, after {} bytes of the body", self.size),
        };
        Err(Failure::new(PARTIAL, text))
    }

    fn take(&mut self, bytes: &[u8], last: bool, body: &mut impl FnMut(&[u8], bool)) -> usize {
        self.size += bytes.len() as u64;
        body(bytes, last);
        bytes.len()
    }

    /// Returns how many of the bytes belong to the head.
    fn head(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        let before = self.partial.len();
        if before == 0 {
            if let Some(count) = self.parse(bytes)? {
                return Ok(count);
            }
        }
        let count = bytes.len().min(MOST_HEAD + 1 - before);
        self.partial.extend_from_slice(&bytes[..count]);
        // A head that came in many pieces is not looked at again before another of its lines has ended.
        if before > 0 && bytes[..count].contains(&b'\n') {
            let partial = std::mem::take(&mut self.partial);
            if let Some(length) = self.parse(&partial)? {
                return Ok(length - before);
            }
            self.partial = partial;
        }
        if self.partial.len() > MOST_HEAD {
            return Err(too_long());
        }
        Ok(count)
    }

    /// Returns the length of the head; None if more of it must arrive.
    fn parse(&mut self, bytes: &[u8]) -> Result<Option<usize>, Failure> {
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut head = httparse::Response::new(&mut headers);
        let length = match head.parse(bytes) {
            Ok(Status::Complete(length)) if length <= MOST_HEAD => length,
            Ok(Status::Complete(_)) => return Err(too_long()),
            Ok(Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => {
                return Err(Failure::new(TOO_LARGE, format!("the response has more than {MOST_HEADERS} headers")));
            }
            Err(error) => return Err(Failure::new(MALFORMED, format!("the response is not HTTP/1.1: {error}"))),
        };
        let (status, minor) = (head.code.unwrap_or(0), head.version.unwrap_or(1));
        if status == SWITCHING {
            return Err(Failure::new(MALFORMED, "the server switched to another protocol, which nobody asked for"));
        }
        if status < 100 {
            return Err(Failure::new(
                MALFORMED,
                format!("the response has the status {status:03}, which HTTP lacks"),
            ));
        }
        if status < 200 {
            // An interim response, such as 100 Continue: the final one follows.
            return Ok(Some(length));
        }
        (self.status, self.minor, self.keeps) = (status, minor, minor == 1);
        let mut chunked = false;
        for header in head.headers.iter() {
            if header.name.eq_ignore_ascii_case("content-length") {
                let Some(number) = parse_length(header.value) else {
                    return Err(Failure::new(MALFORMED, "the response has a Content-Length that is no number"));
                };
                if self.length.is_some_and(|length| length != number) {
                    return Err(Failure::new(MALFORMED, "the response has two different lengths"));
                }
                self.length = Some(number);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = has_token(header.value, b"chunked");
                if !chunked && !has_token(header.value, b"identity") {
                    return Err(Failure::new(MALFORMED, "the response has an unknown Transfer-Encoding"));
                }
            } else if header.name.eq_ignore_ascii_case("connection") {
                if has_token(header.value, b"close") {
                    self.keeps = false;
                } else if has_token(header.value, b"keep-alive") {
                    self.keeps = true;
                }
            }
        }
        self.state = if self.bare || status == NO_CONTENT || status == NOT_MODIFIED {
            State::Done
        } else if chunked {
            self.length = None;
            State::ChunkSize
        } else {
            match self.length {
                Some(0) => State::Done,
                Some(length) => State::Length(length),
                None => {
                    self.keeps = false;
                    State::UntilClosed
                }
            }
        };
        Ok(Some(length))
    }

    /// Returns the bytes up to the end of the line, and the line, once it has arrived whole.
    fn line(&mut self, bytes: &[u8], most: usize) -> Result<(usize, Option<Vec<u8>>), Failure> {
        let end = bytes.iter().position(|&byte| byte == b'\n');
        let count = end.map_or(bytes.len(), |end| end + 1);
        if self.partial.len() + count > most {
            return Err(Failure::new(TOO_LARGE, format!("a line of the chunked body has more than {most} bytes")));
        }
        self.partial.extend_from_slice(&bytes[..count]);
        Ok((count, end.map(|_| std::mem::take(&mut self.partial))))
    }

    fn chunk_size(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        let (count, line) = self.line(bytes, MOST_LINE)?;
        if let Some(line) = line {
            self.state = match httparse::parse_chunk_size(&line) {
                Ok(Status::Complete((_, 0))) => State::Trailers,
                Ok(Status::Complete((_, size))) => State::Chunk(size),
                _ => return Err(Failure::new(MALFORMED, "the size of a chunk is no number")),
            };
        }
        Ok(count)
    }

    fn trailers(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        let (count, line) = self.line(bytes, MOST_HEAD)?;
        if line.is_some_and(|line| line == b"\r\n" || line == b"\n") {
            self.state = State::Done;
        }
        Ok(count)
    }
}

fn too_long() -> Failure {
    Failure::new(TOO_LARGE, format!("the head of the response has more than {MOST_HEAD} bytes"))
}

/// A length in decimal digits. Rust's own parser takes a plus sign too.
fn parse_length(value: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(value).ok()?.trim();
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// Whether a list of words has the word.
fn has_token(value: &[u8], word: &[u8]) -> bool {
    let words = value.split(|&byte| byte == b',' || byte == b' ' || byte == b'\t');
    words.into_iter().any(|each| each.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a response whole, byte by byte, and in pieces of seven bytes. Returns it with its body.
    fn read(bytes: &[u8], bare: bool) -> Result<(Response, Vec<u8>), Failure> {
        let mut results = Vec::new();
        for step in [bytes.len().max(1), 1, 7] {
            let (mut response, mut all) = (Response::new(bare), Vec::new());
            let mut used = 0;
            for piece in bytes.chunks(step) {
                used += response.read(piece, &mut |part: &[u8], _| all.extend_from_slice(part))?;
            }
            results.push((response, all, used));
        }
        let (first, body, used) = results.remove(0);
        for (other, others, count) in &results {
            assert_eq!(
                (first.status, first.size, first.done(), first.keeps),
                (other.status, other.size, other.done(), other.keeps)
            );
            assert_eq!((&body, used), (others, *count));
        }
        Ok((first, body))
    }

    fn number(result: Result<(Response, Vec<u8>), Failure>) -> u16 {
        result.unwrap_err().number
    }

    #[test]
    fn bodies_have_a_length_or_chunks_or_an_end() {
        let (response, body) = read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false).unwrap();
        assert_eq!(
            (response.status, body.as_slice(), response.done(), response.keeps),
            (200, &b"hello"[..], true, true)
        );
        let chunks =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nA: b\r\n\r\n";
        let (response, body) = read(chunks, false).unwrap();
        assert_eq!((body.as_slice(), response.done()), (&b"hello"[..], true));
        let (mut response, body) = read(b"HTTP/1.0 200 OK\r\n\r\nhello", false).unwrap();
        assert_eq!((body.as_slice(), response.done(), response.keeps), (&b"hello"[..], false, false));
        assert!(response.end().is_ok() && response.done());
    }

    #[test]
    fn some_responses_have_no_body() {
        let (response, _) = read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true).unwrap();
        assert!(response.done() && response.length == Some(5));
        assert!(read(b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false).unwrap().0.done());
        assert!(read(b"HTTP/1.1 204 No Content\r\n\r\n", false).unwrap().0.done());
        let (response, body) =
            read(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", false).unwrap();
        assert_eq!((response.status, body.as_slice(), response.done()), (200, &b"x"[..], true));
    }

    #[test]
    fn connections_are_kept_or_closed() {
        let keeps = |head: &str| read(format!("{head}\r\n\r\n").as_bytes(), true).unwrap().0.keeps;
        assert!(keeps("HTTP/1.1 200 OK"));
        assert!(!keeps("HTTP/1.1 200 OK\r\nConnection: Close"));
        assert!(!keeps("HTTP/1.0 200 OK"));
        assert!(keeps("HTTP/1.0 200 OK\r\nConnection: keep-alive"));
    }

    #[test]
    fn more_than_the_response_is_left() {
        let two = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1";
        assert_eq!(Response::new(false).read(two, &mut |_, _| {}).unwrap(), two.len() - 8);
    }

    #[test]
    fn malformed_responses_are_errors() {
        assert_eq!(number(read(b"SSH-2.0-OpenSSH\r\n", false)), MALFORMED);
        assert_eq!(number(read(b"HTTP/1.1 099 OK\r\n\r\n", false)), MALFORMED);
        for length in ["x", "", "+1", "-1", "1 1", "18446744073709551616"] {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            assert_eq!(number(read(head.as_bytes(), false)), MALFORMED);
        }
        assert_eq!(
            number(read(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", false)),
            MALFORMED
        );
        let chunked = |rest: &str| {
            read(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{rest}").as_bytes(), false)
        };
        assert_eq!(number(chunked("zz\r\n")), MALFORMED);
        assert_eq!(number(chunked("1\r\nxy\r\n")), MALFORMED);
        assert_eq!(number(chunked(&"1".repeat(5_000))), TOO_LARGE);
        assert_eq!(
            number(read(format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(1 << 20)).as_bytes(), false)),
            TOO_LARGE
        );
        let head = |rest: usize| format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(rest));
        let room = MOST_HEAD - head(0).len();
        assert!(read(head(room).as_bytes(), true).is_ok());
        // However many bytes arrive at once.
        for step in [1 << 20, 1_000, 7] {
            let mut response = Response::new(true);
            let long = head(room + 1);
            let failure = long.as_bytes().chunks(step).find_map(|piece| response.read(piece, &mut |_, _| {}).err());
            assert_eq!(failure.unwrap().number, TOO_LARGE);
        }
        let many: String = (0..200).map(|at| format!("H{at}: x\r\n")).collect();
        assert_eq!(number(read(format!("HTTP/1.1 200 OK\r\n{many}\r\n").as_bytes(), false)), TOO_LARGE);
    }

    #[test]
    fn early_ends_are_told_apart() {
        let end = |bytes: &[u8]| read(bytes, false).unwrap().0.end().unwrap_err();
        assert_eq!(end(b"").number, NOTHING);
        assert_eq!(end(b"HTTP/1.1 200").number, PARTIAL);
        assert!(end(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe").text.contains("2 of 5 bytes"));
        assert_eq!(end(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhe").number, PARTIAL);
    }
}
