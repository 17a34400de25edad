//! Finds the end of a response in the bytes that have arrived so far, for each protocol.

/// A protocol whose requests are answered in order, one at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// PostgreSQL's frontend/backend protocol 3.0; a response ends with ReadyForQuery.
    Postgresql,
    /// The client/server protocol of MySQL and MariaDB, for COM_STMT_EXECUTE and other commands of one result.
    Mysql,
    /// RESP2 and RESP3.
    Redis,
    /// OP_MSG of MongoDB's wire protocol.
    Mongodb,
}

impl Protocol {
    pub fn named(name: &str) -> Option<Protocol> {
        Some(match name {
            "postgresql" => Protocol::Postgresql,
            "mysql" => Protocol::Mysql,
            "redis" => Protocol::Redis,
            "mongodb" => Protocol::Mongodb,
            _ => return None,
        })
    }

    /// The request, with one response, that undoes what an operation of several requests has done when one of them fails.
    pub fn undo(self) -> Option<&'static [u8]> {
        match self {
            Protocol::Postgresql => Some(b"Q\0\0\0\x0dROLLBACK\0"),
            Protocol::Mysql => Some(b"\x09\0\0\0\x03ROLLBACK"),
            Protocol::Redis | Protocol::Mongodb => None,
        }
    }
}

/// State of a response that is arriving. Offsets count from the response's first byte.
#[derive(Clone, Debug)]
pub struct Framer {
    protocol: Protocol,
    /// Where the next message begins that was not looked at yet.
    at: usize,
    mysql: Mysql,
    /// RESP: how many elements are still to come. 0 before the first.
    elements: u64,
    started: bool,
    /// Whether the response is an error. Only looked for in protocols that have an `undo`.
    pub failed: bool,
}

/// The part of a MySQL response that comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mysql {
    First,
    Columns(u64),
    /// The packet that ends the column definitions, or, where the client has deprecated it, the first row.
    AfterColumns,
    Rows,
}

/// The response isn't one of the protocol: the connection can't be used any more.
pub type Malformed = &'static str;

/// Whether the status that follows so many length-encoded numbers announces another result, as procedures have.
fn more_results(mut bytes: &[u8], numbers: usize) -> bool {
    for _ in 0..numbers {
        let Some((_, length)) = length_encoded(bytes) else { return false };
        bytes = &bytes[length..];
    }
    bytes.first().is_some_and(|status| status & 0x08 != 0)
}

const MYSQL_LONGEST: usize = 0xff_ffff;

impl Framer {
    pub fn new(protocol: Protocol) -> Framer {
        Framer { protocol, at: 0, mysql: Mysql::First, elements: 0, started: false, failed: false }
    }

    /// Returns the length of the response if `bytes` holds all of it; None if more must arrive.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        match self.protocol {
            Protocol::Postgresql => self.postgresql(bytes),
            Protocol::Mysql => self.mysql(bytes),
            Protocol::Redis => self.redis(bytes),
            Protocol::Mongodb => mongodb(bytes),
        }
    }

    fn postgresql(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        while let Some(header) = bytes.get(self.at..self.at + 5) {
            let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
            if length < 4 {
                return Err("a PostgreSQL message is shorter than its length field");
            }
            let end = self.at + 1 + length;
            if end > bytes.len() {
                return Ok(None);
            }
            self.at = end;
            self.failed |= header[0] == b'E';
            match header[0] {
                b'Z' => return Ok(Some(end)),
                // ErrorResponse, BindComplete, DataRow, CommandComplete, EmptyQueryResponse, NoData, RowDescription, PortalSuspended,
                // ParseComplete, CloseComplete, and what a server may send at any time: notices, parameters, notifications.
                b'E' | b'2' | b'D' | b'C' | b'I' | b'n' | b'T' | b's' | b'1' | b'3' | b'N' | b'S' | b'A' => {}
                _ => return Err("an unexpected PostgreSQL message"),
            }
        }
        Ok(None)
    }

    fn mysql(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        while let Some(header) = bytes.get(self.at..self.at + 4) {
            let length = usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
            let end = self.at + 4 + length;
            if end > bytes.len() {
                return Ok(None);
            }
            let payload = &bytes[self.at + 4..end];
            let continued = self.continued(bytes);
            self.at = end;
            if continued {
                continue;
            }
            let first = *payload.first().ok_or("an empty MySQL packet")?;
            self.failed |= first == 0xff && !matches!(self.mysql, Mysql::Columns(_));
            match self.mysql {
                Mysql::First => match first {
                    0x00 if more_results(&payload[1..], 2) => {}
                    0x00 | 0xff => return Ok(Some(end)),
                    0xfb => return Err("the MySQL server asks for a local file"),
                    _ => {
                        let (columns, _) = length_encoded(payload).ok_or("a broken MySQL column count")?;
                        self.mysql = Mysql::Columns(columns);
                    }
                },
                Mysql::Columns(left) => {
                    self.mysql = if left > 1 { Mysql::Columns(left - 1) } else { Mysql::AfterColumns };
                }
                // A row begins with 0x00; an EOF packet has 5 bytes; the OK packet that replaces EOF at the end has 7 or more.
                Mysql::AfterColumns if first == 0xfe && length == 5 => self.mysql = Mysql::Rows,
                Mysql::AfterColumns | Mysql::Rows => match first {
                    // EOF has its status after the warnings; OK after two numbers.
                    0xfe if more_results(
                        &payload[if length == 5 { 3 } else { 1 }..],
                        if length == 5 { 0 } else { 2 },
                    ) =>
                    {
                        self.mysql = Mysql::First;
                    }
                    0xfe | 0xff => return Ok(Some(end)),
                    _ => self.mysql = Mysql::Rows,
                },
            }
        }
        Ok(None)
    }

    /// Whether the packet at `self.at` continues the one before it, which then had the longest possible payload.
    fn continued(&self, bytes: &[u8]) -> bool {
        let Some(before) = self.at.checked_sub(MYSQL_LONGEST + 4) else { return false };
        bytes[before..before + 3] == [0xff, 0xff, 0xff] && bytes[before + 3].wrapping_add(1) == bytes[self.at + 3]
    }

    fn redis(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        if !self.started {
            (self.started, self.elements) = (true, 1);
        }
        while self.elements > 0 {
            let rest = &bytes[self.at.min(bytes.len())..];
            let Some(line) = rest.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
            let number = || -> Result<i64, Malformed> {
                let digits = rest[1..line].strip_suffix(b"\r").ok_or("a RESP line without CR LF")?;
                std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).ok_or("a broken RESP length")
            };
            let mut end = self.at + line + 1;
            let mut more = 0u64;
            match rest[0] {
                b'-' | b'+' | b':' | b',' | b'#' | b'_' | b'(' => {}
                b'$' | b'=' | b'!' => {
                    let length = number()?;
                    end += if length < 0 { 0 } else { length as usize + 2 };
                }
                b'*' | b'~' => more = number()?.max(0) as u64,
                b'%' => more = 2 * number()?.max(0) as u64,
                // Attributes and pushes precede a reply; they are none.
                b'|' => more = 2 * number()?.max(0) as u64 + 1,
                b'>' => more = number()?.max(0) as u64 + 1,
                _ => return Err("an unknown RESP type"),
            }
            if end > bytes.len() {
                return Ok(None);
            }
            self.at = end;
            self.elements = (self.elements - 1).checked_add(more).ok_or("a RESP length is too large")?;
        }
        Ok(Some(self.at))
    }
}

fn mongodb(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some(header) = bytes.get(..4) else { return Ok(None) };
    let length = i32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    if length < 16 {
        return Err("a MongoDB message is shorter than its header");
    }
    Ok((bytes.len() >= length as usize).then_some(length as usize))
}

/// Returns a length-encoded integer of the MySQL protocol and how many bytes it has.
pub fn length_encoded(bytes: &[u8]) -> Option<(u64, usize)> {
    let little_endian = |from: &[u8]| from.iter().rev().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
    Some(match *bytes.first()? {
        0xfc => (little_endian(bytes.get(1..3)?), 3),
        0xfd => (little_endian(bytes.get(1..4)?), 4),
        0xfe => (little_endian(bytes.get(1..9)?), 9),
        small => (u64::from(small), 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds a response byte by byte: it must end with its last byte, and not before.
    fn framed(protocol: Protocol, response: &[u8]) {
        let mut framer = Framer::new(protocol);
        for length in 1..response.len() {
            assert_eq!(framer.advance(&response[..length]), Ok(None), "{length} of {} bytes", response.len());
        }
        assert_eq!(framer.advance(response), Ok(Some(response.len())));
        let mut whole = Framer::new(protocol);
        let followed = [response, b"more"].concat();
        assert_eq!(whole.advance(&followed), Ok(Some(response.len())));
    }

    #[test]
    fn postgresql_ends_with_ready_for_query() {
        let row = b"2\0\0\0\x04D\0\0\0\x0b\0\x01\0\0\0\x01ZN\0\0\0\x05xC\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";
        framed(Protocol::Postgresql, row);
        framed(Protocol::Postgresql, b"E\0\0\0\x05\0Z\0\0\0\x05I");
        assert!(Framer::new(Protocol::Postgresql).advance(b"?\0\0\0\x04").is_err());
        assert!(Framer::new(Protocol::Postgresql).advance(b"D\0\0\0\x01").is_err());
    }

    #[test]
    fn mysql_has_results_with_and_without_eof() {
        framed(Protocol::Mysql, b"\x07\0\0\x01\0\x01\0\x02\0\0\0");
        framed(Protocol::Mysql, b"\x04\0\0\x01\xff\x10\x04x");
        let columns = b"\x01\0\0\x01\x02\x02\0\0\x02ab\x02\0\0\x03cd";
        let row = b"\x03\0\0\x05\0\0z";
        let eof = b"\x05\0\0\x04\xfe\0\0\x02\0";
        let ok = b"\x07\0\0\x06\xfe\0\0\x02\0\0\0";
        framed(Protocol::Mysql, &[&columns[..], eof, row, eof].concat());
        framed(Protocol::Mysql, &[&columns[..], eof, eof].concat());
        framed(Protocol::Mysql, &[&columns[..], row, ok].concat());
        framed(Protocol::Mysql, &[&columns[..], ok].concat());
        let (more, done) = (b"\x05\0\0\x06\xfe\0\0\x0a\0", b"\x07\0\0\x07\0\0\0\x02\0\0\0");
        framed(Protocol::Mysql, &[&columns[..], eof, row, more, done].concat());
    }

    #[test]
    fn redis_has_nested_replies() {
        framed(Protocol::Redis, b"$-1\r\n");
        framed(Protocol::Redis, b"$5\r\na\r\nbc\r\n");
        framed(Protocol::Redis, b"*3\r\n$1\r\na\r\n*1\r\n:5\r\n$-1\r\n");
        framed(Protocol::Redis, b">2\r\n+a\r\n+b\r\n%1\r\n+k\r\n_\r\n");
        framed(Protocol::Redis, b"-ERR wrong\r\n");
        framed(Protocol::Redis, b"*1\r\n-ERR wrong\r\n");
        assert!(Framer::new(Protocol::Redis).advance(b"?\r\n").is_err());
    }

    #[test]
    fn mongodb_has_a_length() {
        framed(Protocol::Mongodb, &[&20i32.to_le_bytes()[..], &[0; 16]].concat());
        assert!(Framer::new(Protocol::Mongodb).advance(&3i32.to_le_bytes()).is_err());
    }

    #[test]
    fn error_responses_are_noticed() {
        let failed = |protocol, response: &[u8]| {
            let mut framer = Framer::new(protocol);
            assert_eq!(framer.advance(response), Ok(Some(response.len())));
            framer.failed
        };
        assert!(failed(Protocol::Postgresql, b"E\0\0\0\x05\0Z\0\0\0\x05E"));
        assert!(!failed(Protocol::Postgresql, b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I"));
        assert!(failed(Protocol::Mysql, b"\x04\0\0\x01\xff\x10\x04x"));
        assert!(!failed(Protocol::Mysql, b"\x07\0\0\x01\0\x01\0\x02\0\0\0"));
        // An error may come after rows.
        let rows = b"\x01\0\0\x01\x01\x02\0\0\x02ab\x05\0\0\x03\xfe\0\0\x02\0\x03\0\0\x04\0\0z";
        assert!(failed(Protocol::Mysql, &[&rows[..], b"\x04\0\0\x05\xff\x10\x04x"].concat()));
    }

    #[test]
    fn the_lengths_of_undo_are_right() {
        let undo = Protocol::Postgresql.undo().unwrap();
        assert_eq!(undo.len(), 1 + u32::from_be_bytes(undo[1..5].try_into().unwrap()) as usize);
        let undo = Protocol::Mysql.undo().unwrap();
        assert_eq!(undo.len(), 4 + usize::from(undo[0]));
    }
}
