//! The seccomp filter (BPF) that selects the system calls at which a process stops. All others run at full speed.

use libc::{c_long, sock_filter, sock_fprog};

const ARCH_X86_64: u32 = 0xc000_003e;
/// Bit of the x32 interface, whose calls have other arguments.
const X32: u32 = 0x4000_0000;
const ALLOW: u32 = 0x7fff_0000;
const TRACE: u32 = 0x7ff0_0000;
const ERRNO: u32 = 0x0005_0000;
/// Offsets in `seccomp_data` of the number, the architecture and the first argument.
const NR: u32 = 0;
const ARCH: u32 = 4;
const ARGS: u32 = 16;

pub const TMPFILE: u64 = 0o20000000;
pub const FICLONE: u32 = 0x4004_9409;
pub const FICLONERANGE: u32 = 0x4020_940d;
pub const FIDEDUPERANGE: u32 = 0xc018_9436;

enum When {
    Always,
    /// If an argument has one of these bits.
    Bits(u32, u32),
    /// If an argument is one of these.
    Is(u32, &'static [u32]),
}

fn calls() -> Vec<(c_long, When)> {
    let makes = (libc::O_CREAT | libc::O_TRUNC) as u32 | TMPFILE as u32;
    let mut calls = vec![
        (libc::SYS_open, When::Bits(1, makes)),
        (libc::SYS_openat, When::Bits(2, makes)),
        (libc::SYS_mmap, When::Bits(3, libc::MAP_SHARED as u32)),
        (libc::SYS_mprotect, When::Bits(2, libc::PROT_WRITE as u32)),
        (libc::SYS_ioctl, When::Is(1, &[FICLONE, FICLONERANGE, FIDEDUPERANGE])),
    ];
    calls.extend(ALWAYS.iter().map(|&call| (call, When::Always)));
    calls
}

const ALWAYS: &[c_long] = &[
    libc::SYS_creat,
    libc::SYS_openat2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_sendfile,
    libc::SYS_copy_file_range,
    libc::SYS_splice,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_msync,
    libc::SYS_sync,
    libc::SYS_syncfs,
    libc::SYS_sync_file_range,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_link,
    libc::SYS_linkat,
    libc::SYS_symlink,
    libc::SYS_symlinkat,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_rmdir,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_mknod,
    libc::SYS_mknodat,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_io_setup,
    libc::SYS_io_uring_setup,
];

fn load(at: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, jt: 0, jf: 0, k: at }
}

fn jump(how: u32, k: u32, yes: u8, no: u8) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | how | libc::BPF_K) as u16, jt: yes, jf: no, k }
}

fn ret(k: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k }
}

pub fn program() -> Vec<sock_filter> {
    let refused = ERRNO | libc::ENOSYS as u32;
    // 32-bit and x32 programs have other call numbers: refused, so that no call is missed.
    let mut program = vec![load(ARCH), jump(libc::BPF_JEQ, ARCH_X86_64, 1, 0), ret(refused)];
    program.extend([load(NR), jump(libc::BPF_JGE, X32, 0, 1), ret(refused)]);
    for (call, when) in calls() {
        let mut then = match when {
            When::Always => vec![],
            When::Bits(argument, bits) => {
                vec![load(ARGS + 8 * argument), jump(libc::BPF_JSET, bits, 1, 0), ret(ALLOW)]
            }
            When::Is(argument, values) => {
                let mut test = vec![load(ARGS + 8 * argument)];
                for (number, &value) in values.iter().enumerate() {
                    // Skips the remaining comparisons and the return.
                    test.push(jump(libc::BPF_JEQ, value, (values.len() - number) as u8, 0));
                }
                test.push(ret(ALLOW));
                test
            }
        };
        then.push(ret(TRACE));
        program.push(jump(libc::BPF_JEQ, call as u32, 0, then.len() as u8));
        program.extend(then);
    }
    program.push(ret(ALLOW));
    program
}

/// Installs the filter in this process, which is about to execute the command. Fails with an errno.
pub fn install(program: &[sock_filter]) -> Result<(), i32> {
    let filter = sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the program during the call.
    unsafe {
        if libc::geteuid() != 0 && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(*libc::__errno_location());
        }
        if libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter as *const sock_fprog) != 0 {
            return Err(*libc::__errno_location());
        }
    }
    Ok(())
}
