//! Records what a command and its descendants do to the files below some directories. It uses ptrace; a seccomp filter
//! stops processes at the relevant calls only.

mod calls;
mod data;
mod filter;
mod log;
mod names;
mod tracee;
mod tree;

use std::collections::HashMap;
use std::ffi::CString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use calls::{Pending, Recorder};
use log::Log;
use tracee::{failed, Tracee, OPTIONS};
use tree::{Place, Tree};

/// A known name: device, inode, number, number of its directory (-1 for a root), name.
type Known = (u64, u64, i64, i64, Vec<u8>);

/// Runs the command and writes its events to `out`. Descendants that outlive it by `grace_ns` are killed. Returns its exit
/// status, or minus its signal's number; None if waiting failed before it ended.
#[pyfunction]
pub fn trace(
    py: Python<'_>,
    command: Vec<Vec<u8>>,
    environment: Vec<Vec<u8>>,
    known: Vec<Known>,
    out: PathBuf,
    grace_ns: u64,
) -> PyResult<Option<i32>> {
    let mut tree = Tree::default();
    for (device, inode, number, parent, name) in known {
        tree.add((device, inode), number, (parent >= 0).then_some(Place { parent, name }));
    }
    py.detach(move || {
        let log = Log::create(&out).map_err(|error| error.to_string())?;
        let child = start(&command, &environment)?;
        let mut recorder = Recorder::new(tree, log);
        let status = follow(&mut recorder, child, Duration::from_nanos(grace_ns)).map_err(|e| e.to_string())?;
        recorder.log_stores(child, None).and_then(|()| recorder.log.finish()).map_err(|error| error.to_string())?;
        Ok(status)
    })
    .map_err(|why: String| PyRuntimeError::new_err(why))
}

fn c_strings(words: &[Vec<u8>]) -> Result<Vec<CString>, String> {
    words.iter().map(|word| CString::new(&word[..]).map_err(|error| error.to_string())).collect()
}

/// Exit status of a child that could not execute the command.
const NOT_STARTED: i32 = 127;

fn start(command: &[Vec<u8>], environment: &[Vec<u8>]) -> Result<i32, String> {
    let (command, environment) = (c_strings(command)?, c_strings(environment)?);
    let pointers = |of: &[CString]| -> Vec<*const libc::c_char> {
        of.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (arguments, variables, program) = (pointers(&command), pointers(&environment), filter::program());
    let mut pipe = [0; 2];
    // SAFETY: after the fork the child makes async-signal-safe calls only, and allocates nothing.
    unsafe {
        if libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(failed("pipe"));
        }
        let child = libc::fork();
        if child < 0 {
            return Err(failed("fork"));
        }
        if child == 0 {
            libc::close(pipe[1]);
            let mut byte = 0u8;
            libc::read(pipe[0], (&mut byte as *mut u8).cast(), 1);
            if byte == 1 && filter::install(&program).is_ok() {
                libc::execve(arguments[0], arguments.as_ptr(), variables.as_ptr());
            }
            libc::_exit(NOT_STARTED);
        }
        libc::close(pipe[0]);
        let seized = Tracee(child).ptrace(libc::PTRACE_SEIZE, OPTIONS);
        let why = failed("ptrace may not be used here");
        let byte = u8::from(seized);
        libc::write(pipe[1], (&byte as *const u8).cast(), 1);
        libc::close(pipe[1]);
        if !seized {
            libc::waitpid(child, std::ptr::null_mut(), 0);
            return Err(why);
        }
        Ok(child)
    }
}

/// Handles the stops of all traced threads until all have ended.
fn follow(recorder: &mut Recorder, leader: i32, grace: Duration) -> std::io::Result<Option<i32>> {
    let mut tasks: HashMap<i32, Option<Pending>> = HashMap::from([(leader, None)]);
    let mut ended: Option<(i32, Instant)> = None;
    loop {
        let mut status = 0;
        let how = libc::__WALL | if ended.is_some() { libc::WNOHANG } else { 0 };
        // SAFETY: waitpid writes to the status only.
        let task = unsafe { libc::waitpid(-1, &mut status, how) };
        if task < 0 {
            let error = std::io::Error::last_os_error();
            if error.raw_os_error() == Some(libc::EINTR) {
                continue;
            }
            return Ok(ended.map(|(status, _)| status));
        }
        if task == 0 {
            std::thread::sleep(Duration::from_millis(1));
            if ended.is_some_and(|(_, at)| at.elapsed() > grace) {
                // SAFETY: these are this process's own tracees.
                tasks.keys().for_each(|&task| unsafe {
                    libc::kill(task, libc::SIGKILL);
                });
            }
            continue;
        }
        if libc::WIFSTOPPED(status) {
            stopped(recorder, &mut tasks, Tracee(task), status)?;
            continue;
        }
        if let Some(Some(pending)) = tasks.remove(&task) {
            recorder.abandoned(task, &pending)?;
        }
        if task == leader {
            let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -libc::WTERMSIG(status) };
            ended = Some((code, Instant::now()));
        }
    }
}

fn stopped(
    recorder: &mut Recorder,
    tasks: &mut HashMap<i32, Option<Pending>>,
    task: Tracee,
    status: i32,
) -> std::io::Result<()> {
    let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
    let mut delivered = 0;
    let pending = tasks.entry(task.0).or_default();
    if event == libc::PTRACE_EVENT_SECCOMP {
        *pending = match task.call() {
            Some((number, arguments)) => recorder.begin(task, number, arguments)?,
            None => None,
        };
    } else if signal == libc::SIGTRAP | 0x80 {
        if let (Some(pending), Some(result)) = (pending.take(), task.result()) {
            recorder.end(task, pending, result)?;
        }
    } else if event == libc::PTRACE_EVENT_STOP && signal != libc::SIGTRAP {
        task.ptrace(libc::PTRACE_LISTEN, 0);
        return Ok(());
    } else if event == 0 {
        delivered = signal;
    }
    let waits = tasks.get(&task.0).is_some_and(Option::is_some);
    task.ptrace(if waits { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT }, delivered.into());
    Ok(())
}
