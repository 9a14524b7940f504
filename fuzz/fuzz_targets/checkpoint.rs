//! Runs the body `checkpoint` on whatever bytes the fuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| varvite_fuzz::log_files::checkpoint(bytes));
