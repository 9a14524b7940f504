let () =
  Alcotest.run ~compact:true "varvite"
    [ ("hashes", Hashes.tests);
      ("without memory", Starved.tests);
      ("forks and threads", Concurrent.tests);
      ("conformance", Conformance.tests);
      ("properties", Properties.tests);
      ("stories", Stories.tests);
      ("keeping", Keeping.tests);
      ("pairs", Pairs.tests);
      ("misuse", Misuse.tests) ]
