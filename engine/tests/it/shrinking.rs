//! Takes steps out of a failing list as long as it still fails.

/// Runs of a case at most.
pub const TRIES: u64 = 600;

/// The steps without as many as can go while `run` still fails, with what it then says.
pub fn fewer<S: Clone>(
    mut steps: Vec<S>,
    mut failure: String,
    tries: &mut u64,
    run: impl Fn(&[S]) -> Result<(), String>,
) -> (Vec<S>, String) {
    let mut length = steps.len().div_ceil(2);
    while length > 0 && *tries > 0 {
        let mut start = 0;
        while start < steps.len() && *tries > 0 {
            *tries -= 1;
            let mut fewer = steps.clone();
            fewer.drain(start..(start + length).min(steps.len()));
            match run(&fewer) {
                Err(what) => (steps, failure) = (fewer, what),
                Ok(()) => start += length,
            }
        }
        length /= 2;
    }
    (steps, failure)
}
