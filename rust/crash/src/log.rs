//! Writes the events of a record as MessagePack. dyno/crash/record.py defines their fields.

use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;

pub const NEVER: u64 = (1 << 62) - 1;

pub struct Log {
    out: BufWriter<File>,
    frame: Vec<u8>,
    moment: u64,
}

pub enum Part<'a> {
    Number(i64),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    Flag(bool),
    Nothing,
}

use Part::*;

impl Log {
    pub fn create(path: &Path) -> Result<Log> {
        Ok(Log { out: BufWriter::with_capacity(1 << 20, File::create(path)?), frame: Vec::new(), moment: 0 })
    }

    /// The next moment in the order of all calls.
    pub fn moment(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    pub fn event(&mut self, tag: &str, begin: u64, end: u64, task: i32, parts: &[Part]) -> Result<()> {
        self.frame.clear();
        self.frame.push(0x90 | (parts.len() + 4) as u8);
        self.part(&Text(tag.as_bytes()));
        self.part(&Number(begin as i64));
        self.part(&Number(end as i64));
        self.part(&Number(task.into()));
        parts.iter().for_each(|part| self.part(part));
        self.out.write_all(&(self.frame.len() as u32).to_le_bytes())?;
        self.out.write_all(&self.frame)
    }

    /// Logs an event that takes no time.
    pub fn at(&mut self, tag: &str, task: i32, parts: &[Part]) -> Result<()> {
        let now = self.moment();
        self.event(tag, now, now, task, parts)
    }

    pub fn finish(&mut self) -> Result<()> {
        self.out.flush()
    }

    fn part(&mut self, part: &Part) {
        match *part {
            Number(value) => {
                self.frame.push(0xd3);
                self.frame.extend(value.to_be_bytes());
            }
            Text(value) => {
                let text = String::from_utf8_lossy(value);
                self.frame.push(0xdb);
                self.frame.extend((text.len() as u32).to_be_bytes());
                self.frame.extend(text.as_bytes());
            }
            Bytes(value) => {
                self.frame.push(0xc6);
                self.frame.extend((value.len() as u32).to_be_bytes());
                self.frame.extend(value);
            }
            Flag(value) => self.frame.push(if value { 0xc3 } else { 0xc2 }),
            Nothing => self.frame.push(0xc0),
        }
    }
}
