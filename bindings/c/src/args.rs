//! Arguments as C gives them, looked at before they are believed.
//!
//! That a pointer leads to as much as is said beside it cannot be checked: that is the caller's promise, and
//! the reason why every block here is sound. What can be checked is: NULL, alignment, lengths, UTF-8.

use std::ffi::{CStr, c_char, c_int};
use std::ops::Bound;
use std::ptr::NonNull;

use crate::status::{Fault, Outcome};
use crate::types::{varvite_bytes, varvite_path};

/// The keys within the bound.
pub const VARVITE_UNBOUNDED: u32 = 0;
/// The bound's key and those beyond it.
pub const VARVITE_INCLUDED: u32 = 1;
/// Those beyond the bound's key.
pub const VARVITE_EXCLUDED: u32 = 2;

/// Where a range of keys begins or ends. NULL for none is the same as VARVITE_UNBOUNDED.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_bound {
    /// VARVITE_UNBOUNDED, VARVITE_INCLUDED or VARVITE_EXCLUDED.
    pub kind: u32,
    /// The key, unless there is no bound.
    pub key: varvite_bytes,
}

/// A place for an answer.
pub struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    pub fn new(place: *mut T, name: &str) -> Outcome<Out<T>> {
        match NonNull::new(place) {
            Some(place) if place.is_aligned() => Ok(Out(place)),
            _ => Err(no_place(name)),
        }
    }

    pub fn set(&self, value: T) {
        // SAFETY: the caller promises that the place, which is neither NULL nor unaligned, is one for a
        // `T` that nobody else uses meanwhile. What was there needs no drop: it was C's.
        unsafe { self.0.write(value) }
    }
}

/// A place for an answer that need not be wanted: NULL then.
pub fn wanted<T>(place: *mut T, name: &str) -> Outcome<Option<Out<T>>> {
    (!place.is_null()).then(|| Out::new(place, name)).transpose()
}

/// Whether `count` answers have room from `first` on. No slice is made of it: nothing need have been written there.
pub fn room<T>(first: *mut T, count: usize, name: &str) -> Outcome {
    if count == 0 || is_array(first, count) { Ok(()) } else { Err(no_array(first, count, name)) }
}

fn is_array<T>(first: *const T, count: usize) -> bool {
    let fits =
        count.checked_mul(size_of::<T>()).is_some_and(|bytes| isize::try_from(bytes).is_ok());
    !first.is_null() && first.is_aligned() && fits
}

#[cold]
fn no_array<T>(first: *const T, count: usize, name: &str) -> Fault {
    Fault::invalid(format!(
        "the {name} cannot be {count} at {first:p}: pass an array and its length"
    ))
}

#[cold]
fn no_place(name: &str) -> Fault {
    Fault::invalid(format!("there is no place for the {name}: pass the address of a variable"))
}

/// A place for the bytes of one answer: a buffer, and how many they are.
pub struct Buffer {
    first: *mut u8,
    capacity: usize,
    length: Out<usize>,
}

impl Buffer {
    pub fn new(first: *mut u8, capacity: usize, length: *mut usize) -> Outcome<Buffer> {
        room(first, capacity, "buffer")?;
        Ok(Buffer { first, capacity, length: Out::new(length, "length")? })
    }

    /// Says how many bytes there are, `SIZE_MAX` for none at all, and writes them when there is room for all.
    pub fn set(&self, found: Option<&[u8]>) {
        if let Some(bytes) = found.filter(|it| it.len() <= self.capacity && !it.is_empty()) {
            // SAFETY: `room` saw that it is not NULL, and the caller promises `capacity` bytes, which are as many at
            // least, and that nobody else uses meanwhile.
            unsafe { self.first.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        self.length.set(found.map_or(usize::MAX, <[u8]>::len));
    }
}

/// What a pointer leads to, which must not be NULL.
pub fn one<'a, T>(pointer: *const T, name: &str) -> Outcome<&'a T> {
    optional(pointer, name)?
        .ok_or_else(|| Fault::invalid(format!("the {name} is NULL: pass the address of one")))
}

/// What a pointer leads to, if it is not NULL.
pub fn optional<'a, T>(pointer: *const T, name: &str) -> Outcome<Option<&'a T>> {
    if !pointer.is_aligned() {
        return Err(Fault::invalid(format!("the address of the {name} is not aligned")));
    }
    // SAFETY: NULL, or the caller promises that it leads to a `T` that stays as it is during the call.
    Ok(unsafe { pointer.as_ref() })
}

/// An array of `count`; NULL when there are none.
pub fn array<'a, T>(first: *const T, count: usize, name: &str) -> Outcome<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if !is_array(first, count) {
        return Err(no_array(first, count, name));
    }
    // SAFETY: neither NULL nor unaligned nor too long, and the caller promises that `count` lie there.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// The bytes that C describes.
pub fn bytes<'a>(given: varvite_bytes, name: &str) -> Outcome<&'a [u8]> {
    check(&given, name)?;
    Ok(piece(&given))
}

fn check(given: &varvite_bytes, name: &str) -> Outcome {
    let fits = isize::try_from(given.length).is_ok();
    if (given.data.is_null() && given.length > 0) || !fits {
        return Err(no_bytes(given, name));
    }
    Ok(())
}

#[cold]
fn no_bytes(given: &varvite_bytes, name: &str) -> Fault {
    Fault::invalid(format!("the {name} cannot be {} bytes at {:p}", given.length, given.data))
}

fn piece<'a>(checked: &varvite_bytes) -> &'a [u8] {
    if checked.length == 0 {
        return &[];
    }
    // SAFETY: neither NULL nor too long, and the caller promises that so many bytes lie there and stay as
    // they are during the call.
    unsafe { std::slice::from_raw_parts(checked.data, checked.length) }
}

/// Bytes that were looked at, in the engine's hands where they lie.
#[repr(transparent)]
pub struct Piece(varvite_bytes);

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        piece(&self.0)
    }
}

/// Many of them: keys, or the steps of a path. No copy.
pub fn pieces<'a>(first: *const varvite_bytes, count: usize, name: &str) -> Outcome<&'a [Piece]> {
    let given = array(first, count, name)?;
    given.iter().try_for_each(|it| check(it, name))?;
    // SAFETY: `Piece` is transparent over `varvite_bytes`, and all of them were looked at just now.
    Ok(unsafe { &*(std::ptr::from_ref(given) as *const [Piece]) })
}

/// The steps of one path.
pub fn path<'a>(steps: *const varvite_bytes, count: usize) -> Outcome<&'a [Piece]> {
    pieces(steps, count, "path")
}

/// The steps of one of many paths.
pub fn steps<'a>(path: &varvite_path) -> Outcome<&'a [Piece]> {
    pieces(path.steps, path.count, "path")
}

/// A text in UTF-8 that ends with NUL.
pub fn text<'a>(given: *const c_char, name: &str) -> Outcome<&'a str> {
    if given.is_null() {
        return Err(Fault::invalid(format!("the {name} is NULL: pass a text")));
    }
    // SAFETY: not NULL, and the caller promises a text that ends with NUL and stays during the call.
    let text = unsafe { CStr::from_ptr(given) };
    text.to_str().map_err(|error| Fault::invalid(format!("the {name} is no UTF-8: {error}")))
}

/// A C truth value: 0 or 1.
pub fn flag(given: c_int, name: &str) -> Outcome<bool> {
    match given {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Fault::invalid(format!("{name} is {other}: pass 0 or 1"))),
    }
}

/// `choice` of `choices`, which are numbered from 0.
pub fn choose<T: Copy>(choice: u32, choices: &[T], name: &str) -> Outcome<T> {
    choices.get(choice as usize).copied().ok_or_else(|| {
        Fault::invalid(format!("{name} is {choice}: it can be 0 to {}", choices.len() - 1))
    })
}

/// A bound of a range.
pub fn bound<'a>(given: *const varvite_bound) -> Outcome<Bound<&'a [u8]>> {
    let Some(given) = optional(given, "bound")? else { return Ok(Bound::Unbounded) };
    let key = || bytes(given.key, "key of a bound");
    match given.kind {
        VARVITE_UNBOUNDED => Ok(Bound::Unbounded),
        VARVITE_INCLUDED => Ok(Bound::Included(key()?)),
        VARVITE_EXCLUDED => Ok(Bound::Excluded(key()?)),
        other => Err(Fault::invalid(format!("the kind of a bound is {other}: it can be 0 to 2"))),
    }
}

/// Memory that a program gives the library for something. Part of it is taken at once, so a number that cannot be is
/// refused before: the system would end the process.
pub fn budget(bytes: u64, name: &str) -> Outcome<u64> {
    let most = memory_of_machine();
    if bytes > most {
        return Err(Fault::invalid(format!(
            "{name} is {bytes}, and this machine has {most} bytes of memory: pass less"
        )));
    }
    Ok(bytes)
}

/// A number of files; 0 is none that the program chose.
pub fn files(given: u64) -> Option<usize> {
    (given != 0).then(|| usize::try_from(given).unwrap_or(usize::MAX))
}

fn memory_of_machine() -> u64 {
    // SAFETY: both ask for a number.
    let (pages, bytes) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    match (u64::try_from(pages), u64::try_from(bytes)) {
        (Ok(pages), Ok(bytes)) if pages > 0 => pages.saturating_mul(bytes),
        // A system that does not say has at least as much as a phone.
        _ => 4 << 30,
    }
}

/// A struct of options. It begins with its size, in a `u32`; all fields are numbers and pointers.
///
/// # Safety
/// Any bytes are a value of it.
pub unsafe trait Sized32: Copy {
    const NAME: &'static str;
    /// What stands in the fields that an older program does not know.
    fn defaults() -> Self;
}

/// What a program set in a struct of options; `None` for NULL. One of an older release is shorter: the rest has its
/// defaults.
pub fn options<T: Sized32>(given: *const T) -> Outcome<Option<T>> {
    let name = T::NAME;
    let Some(size) = optional(given.cast::<u32>(), name)?.map(|it| *it as usize) else {
        return Ok(None);
    };
    if !given.is_aligned() {
        return Err(Fault::invalid(format!("the address of the {name} is not aligned")));
    }
    // Whole words, so that no field is cut in two.
    if size > size_of::<T>() || size < 8 || !size.is_multiple_of(8) {
        return Err(Fault::invalid(format!(
            "the size of the {name} is {size} and should be {}: begin with the function that sets the defaults, and \
             the header of this release",
            size_of::<T>()
        )));
    }
    let mut options = T::defaults();
    // SAFETY: the caller promises as many bytes as it says, `options` has as many, and any are a value of `T`.
    unsafe { given.cast::<u8>().copy_to_nonoverlapping((&raw mut options).cast(), size) };
    Ok(Some(options))
}

/// What C gets to see of bytes. Empty ones are not NULL, which says that there are none.
pub fn view(bytes: &[u8]) -> varvite_bytes {
    varvite_bytes { data: bytes.as_ptr(), length: bytes.len() }
}

/// What says that nothing is there.
pub const NOTHING: varvite_bytes = varvite_bytes { data: std::ptr::null(), length: 0 };

/// A pointer of the program's, which callbacks get back. That threads may use what it leads to is the
/// caller's promise, made by giving the callback.
#[derive(Clone, Copy)]
pub struct User(pub *mut std::ffi::c_void);

// SAFETY: the header says that callbacks are called from any thread that calls the library, so who gives
// one promises that its data may be used there.
unsafe impl Send for User {}
// SAFETY: as above, also at the same time.
unsafe impl Sync for User {}

/// Tells a program that its data is no longer needed, when the last copy goes. It is made before anything of a call can
/// fail, so that a program need not know where a call failed: who gave a release gets it, once a call.
pub struct Released {
    user: User,
    release: Option<unsafe extern "C" fn(*mut std::ffi::c_void)>,
}

impl Released {
    pub fn new(
        user: *mut std::ffi::c_void,
        release: Option<unsafe extern "C" fn(*mut std::ffi::c_void)>,
    ) -> Released {
        Released { user: User(user), release }
    }

    /// The pointer. A method, so that a closure which asks for it holds all of this, and not a copy of one
    /// field while the rest is dropped.
    pub fn pointer(&self) -> *mut std::ffi::c_void {
        self.user.0
    }
}

impl Drop for Released {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the caller gave this function for exactly this call with exactly this pointer.
            crate::status::inner_callback(|| unsafe { release(self.user.0) });
        }
    }
}
