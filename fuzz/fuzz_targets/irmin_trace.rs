//! Runs the body `irmin_trace` on whatever bytes the fuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| varvite_fuzz::irmin_files::body("irmin_trace", bytes));
