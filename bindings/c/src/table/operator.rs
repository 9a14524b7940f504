//! Merge operators: the built-in ones, and callbacks.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use varvite::MergeOperator;

use crate::args::{Out, Released, bytes, text, view};
use crate::handle::{get, put, take};
use crate::status::{Fault, Outcome, call, inner_callback, unwind_callback, varvite_error};
use crate::types::{varvite_bytes, varvite_operator};

/// Where a callback writes its answer, as long as it runs.
pub struct varvite_output {
    _nothing: [u8; 0],
}

/// Joins `older` and `newer`: writes the result to `output`. Anything but 0 is a failure, and the call
/// that needed the operator returns VARVITE_CALLBACK and changes nothing. Two calls need it for others: a checkpoint of
/// live tables leaves such a table out and `varvite_session_warnings` says so, or is VARVITE_INVALID with the failure
/// in its sentence; and `varvite_work_run` returns VARVITE_CALLBACK on the thread that helps. Opening a live table keeps
/// a failure of its merges to itself, and the next update meets it. Associative; the same
/// answer for the same values; called from any thread that calls the library, at the same time too. Must not call the
/// library, but for `varvite_output_write`, and must not leave by an exception, longjmp or the end of its thread.
pub type varvite_join = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        older: varvite_bytes,
        newer: varvite_bytes,
        output: *mut varvite_output,
    ) -> c_int,
>;

/// Called once for each call that was given it, when nothing needs any more what was given with it: after a call that
/// fails before it returns, as a rule. Only when the options that have it cannot be read, because of their size or an
/// address that is not aligned, it is never called. Must not call the library. May be NULL.
pub type varvite_release = Option<unsafe extern "C" fn(user: *mut c_void)>;

thread_local! {
    /// The answers that callbacks of this thread are writing, with the number of each.
    static OUTPUTS: RefCell<Vec<(usize, Vec<u8>)>> = const { RefCell::new(Vec::new()) };
}

/// Numbers outputs, so that one that was kept is not taken for another.
static OUTPUT: AtomicUsize = AtomicUsize::new(1);

/// Runs a callback that writes an answer.
pub fn with_output(callback: impl FnOnce(*mut varvite_output) -> c_int) -> (c_int, Vec<u8>) {
    /// Takes the answer off, also when something unwinds.
    struct Popped;
    impl Drop for Popped {
        fn drop(&mut self) {
            OUTPUTS.with(|it| it.borrow_mut().pop());
        }
    }
    // Odd, so that it is not the address of anything.
    let number = OUTPUT.fetch_add(1, Ordering::Relaxed) << 1 | 1;
    OUTPUTS.with(|it| it.borrow_mut().push((number, Vec::new())));
    let popped = Popped;
    let code = callback(std::ptr::without_provenance_mut(number));
    let written =
        OUTPUTS.with(|it| std::mem::take(&mut it.borrow_mut().last_mut().expect("pushed above").1));
    drop(popped);
    (code, written)
}

/// Appends `length` bytes to the answer of the callback that got `output`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_output_write(
    output: *mut varvite_output,
    data: *const u8,
    length: usize,
) -> c_int {
    // Not by `call`, which refuses what an operator does; nothing here can unwind.
    let Ok(data) = bytes(varvite_bytes { data, length }, "answer") else {
        return crate::status::VARVITE_INVALID;
    };
    OUTPUTS.with(|it| match it.borrow_mut().last_mut() {
        Some((number, answer)) if *number == output.addr() => {
            // To ask for memory in vain would end the process.
            if answer.try_reserve(data.len()).is_err() {
                return crate::status::VARVITE_INVALID;
            }
            answer.extend_from_slice(data);
            crate::status::VARVITE_OK
        }
        _ => crate::status::VARVITE_INVALID,
    })
}

/// A merge operator of the program's, called `name` in what is stored: give it again where a table that has
/// it is opened. `release` is called with `user` when nothing needs it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_operator_new(
    name: *const c_char,
    join: varvite_join,
    release: varvite_release,
    user: *mut c_void,
    merge_operator: *mut *mut varvite_operator,
    error: *mut varvite_error,
) -> c_int {
    let released = Released::new(user, release);
    call(error, move || {
        let (name, place) = (text(name, "name")?, Out::new(merge_operator, "operator")?);
        let Some(join) = join else { return Err(Fault::invalid("the callback join is NULL")) };
        let function = move |older: &[u8], newer: &[u8]| {
            let user = released.pointer();
            let (code, joined) = with_output(|output| {
                // SAFETY: the program gave this function to be called with this pointer, on any thread; the
                // bytes stay as they are until it returns.
                inner_callback(|| unsafe { join(user, view(older), view(newer), output) })
            });
            if code == 0 { joined } else { unwind_callback(code) }
        };
        place.set(put(MergeOperator::new(name, function))?);
        Ok(())
    })
}

/// A built-in merge operator: "add-u64", "max" or "append".
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_operator_built_in(
    name: *const c_char,
    merge_operator: *mut *mut varvite_operator,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (name, place) = (text(name, "name")?, Out::new(merge_operator, "operator")?);
        let found = MergeOperator::built_in(name).ok_or_else(|| {
            Fault::invalid(format!(
                "no merge operator is called \"{name}\": there are add-u64, max and append"
            ))
        })?;
        place.set(put(found)?);
        Ok(())
    })
}

/// Closes an operator. Tables that have it keep it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_operator_close(
    merge_operator: *mut varvite_operator,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(merge_operator).map(drop))
}

/// The operator that a handle stands for.
pub fn operator(handle: *const varvite_operator) -> Outcome<MergeOperator> {
    let held = get(handle)?;
    let operator = held.read()?;
    Ok(operator.clone())
}
