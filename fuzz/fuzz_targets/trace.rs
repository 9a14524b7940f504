//! Runs the body `trace` on whatever bytes the fuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| varvite_fuzz::trace_bytes::trace(bytes));
