//! Runs the body `range_filter` on whatever bytes the fuzzer finds.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| varvite_fuzz::decoders::range_filter(bytes));
