//! Reads the fields of a BSON document that say whether a command succeeded.

/// A field of a document: its type, its name and the bytes of its value.
type Field<'a> = (u8, &'a [u8], &'a [u8]);

const DOUBLE: u8 = 0x01;
const STRING: u8 = 0x02;
const DOCUMENT: u8 = 0x03;
const ARRAY: u8 = 0x04;
const BOOLEAN: u8 = 0x08;
const INT32: u8 = 0x10;
const INT64: u8 = 0x12;

/// The error that a reply reports: its name or number, and the server's text.
pub struct Failed {
    pub code: Vec<u8>,
    pub message: Vec<u8>,
}

/// Returns the error of a command's reply, be it of the whole command, of a write, or of its write concern. None if the
/// bytes aren't one whole document with the field `ok`.
pub fn outcome(document: &[u8]) -> Option<Result<(), Failed>> {
    let fields = fields(document)?;
    let field = |name: &[u8]| fields.iter().find(|field| field.1 == name);
    if number(field(b"ok")?)? == 0.0 {
        return Some(Err(failed(&fields)));
    }
    if let Some(&(ARRAY, _, errors)) = field(b"writeErrors") {
        if let Some(&(DOCUMENT, _, first)) = self::fields(errors)?.first() {
            return Some(Err(failed(&self::fields(first)?)));
        }
    }
    match field(b"writeConcernError") {
        Some(&(DOCUMENT, _, error)) => Some(Err(failed(&self::fields(error)?))),
        _ => Some(Ok(())),
    }
}

fn failed(fields: &[Field<'_>]) -> Failed {
    let text = |name: &[u8]| match fields.iter().find(|field| field.1 == name) {
        // The length precedes a string, and a NUL ends it.
        Some((STRING, _, value)) => Some(value[4..value.len() - 1].to_vec()),
        Some(field) => number(field).map(|number| number.to_string().into_bytes()),
        None => None,
    };
    let code = text(b"codeName").or_else(|| text(b"code"));
    Failed { code: code.unwrap_or_else(|| b"error".to_vec()), message: text(b"errmsg").unwrap_or_default() }
}

fn number(&(kind, _, value): &Field<'_>) -> Option<f64> {
    Some(match kind {
        DOUBLE => f64::from_le_bytes(value.try_into().ok()?),
        BOOLEAN => value[0].into(),
        INT32 => i32::from_le_bytes(value.try_into().ok()?).into(),
        INT64 => i64::from_le_bytes(value.try_into().ok()?) as f64,
        _ => return None,
    })
}

/// Returns the fields of the document that `bytes` has to consist of.
fn fields(bytes: &[u8]) -> Option<Vec<Field<'_>>> {
    if length(bytes)? != bytes.len() || bytes.len() < 5 || bytes.last() != Some(&0) {
        return None;
    }
    let (mut rest, mut fields) = (&bytes[4..bytes.len() - 1], Vec::new());
    while let Some((&kind, after)) = rest.split_first() {
        let name = after.iter().position(|&byte| byte == 0)?;
        let value = &after[name + 1..];
        let size = size(kind, value)?;
        fields.push((kind, &after[..name], value.get(..size)?));
        rest = &value[size..];
    }
    Some(fields)
}

fn length(bytes: &[u8]) -> Option<usize> {
    usize::try_from(i32::from_le_bytes(bytes.get(..4)?.try_into().ok()?)).ok()
}

/// Returns how many bytes the value of a field has that `bytes` begins with.
fn size(kind: u8, bytes: &[u8]) -> Option<usize> {
    Some(match kind {
        // Undefined, null, and the two keys that sort before and after all others.
        0x06 | 0x0a | 0x7f | 0xff => 0,
        BOOLEAN => 1,
        INT32 => 4,
        // Date and timestamp.
        DOUBLE | 0x09 | 0x11 | INT64 => 8,
        // Object id and decimal number.
        0x07 => 12,
        0x13 => 16,
        // Code and symbol are strings too.
        STRING | 0x0d | 0x0e => length(bytes)?.max(1) + 4,
        // Code with a scope has its own length, as documents have.
        DOCUMENT | ARRAY | 0x0f => length(bytes)?.max(5),
        // Binary data: length and subtype.
        0x05 => length(bytes)? + 5,
        // A regular expression has two texts that end with NUL.
        0x0b => {
            let mut ends = bytes.iter().enumerate().filter(|(_, &byte)| byte == 0);
            ends.nth(1)?.0 + 1
        }
        0x0c => length(bytes)? + 16,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(fields: &[&[u8]]) -> Vec<u8> {
        let body = fields.concat();
        [&(body.len() as i32 + 5).to_le_bytes()[..], &body, b"\0"].concat()
    }

    fn code(document: &[u8]) -> Option<String> {
        let failed = outcome(document).expect("a document").err()?;
        Some(format!("{}: {}", String::from_utf8_lossy(&failed.code), String::from_utf8_lossy(&failed.message)))
    }

    const OK: &[u8] = b"\x01ok\0\0\0\0\0\0\0\xf0\x3f";
    const NOT_OK: &[u8] = b"\x10ok\0\0\0\0\0";

    #[test]
    fn errors_of_commands_and_of_writes_are_found() {
        let message = b"\x02errmsg\0\x03\0\0\0no\0";
        let numbered = b"\x10code\0\x0b\0\0\0";
        assert_eq!(code(&document(&[b"\x0ax\0", OK])), None);
        assert_eq!(code(&document(&[NOT_OK, message, numbered])), Some("11: no".into()));
        assert_eq!(
            code(&document(&[NOT_OK, message, numbered, b"\x02codeName\0\x02\0\0\0A\0"])),
            Some("A: no".into())
        );
        let first = [&b"\x030\0"[..], &document(&[numbered, message])].concat();
        let errors = [&b"\x04writeErrors\0"[..], &document(&[&first])].concat();
        assert_eq!(code(&document(&[OK, &errors])), Some("11: no".into()));
        let concern = [&b"\x03writeConcernError\0"[..], &document(&[numbered, message])].concat();
        assert_eq!(code(&document(&[OK, &concern])), Some("11: no".into()));
    }

    #[test]
    fn broken_documents_are_none() {
        let whole = document(&[b"\x05b\0\x01\0\0\0\0z", OK]);
        assert!(outcome(&whole).is_some());
        assert!(outcome(&document(&[])).is_none());
        for end in 0..whole.len() {
            assert!(outcome(&whole[..end]).is_none());
            let mut changed = whole.clone();
            for byte in 0..=255 {
                changed[end] = byte;
                let _ = outcome(&changed);
            }
        }
    }
}
