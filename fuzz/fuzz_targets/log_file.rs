//! Runs the body `log_file` on whatever bytes the fuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| varvite_fuzz::log_files::log_file(bytes));
