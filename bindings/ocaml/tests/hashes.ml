(* The reference against published numbers, so that two that agree are also right. *)

open Varvite

let hex text = String.concat "" (List.map (fun it -> Printf.sprintf "%02x" (Char.code it)) (List.of_seq (String.to_seq text)))

let blake2b () =
  let check ?size text expected = Alcotest.(check string) "a digest" expected (hex (Blake2b.digest ?size text)) in
  (* RFC 7693, appendix A. *)
  check ~size:64 "abc"
    "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923";
  check "" "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8";
  (* Values of the engine's are hashed by another implementation: lengths around the blocks of 128 bytes. *)
  List.iter
    (fun length ->
      let value = Bytes.init length (fun at -> Char.chr (at * 7 land 255)) in
      let index = Context.create (Disk.memory ()) in
      let ours = Context.Tree.hash (Context.Tree.of_value (Context.empty index) value) in
      let theirs = Reference.Tree.hash (Reference.Tree.of_value (Reference.empty (Reference.init "")) value) in
      Alcotest.(check string) (string_of_int length) (Hash.to_hex ours) (Hash.to_hex theirs);
      Context.close index)
    [ 0; 1; 119; 120; 121; 127; 128; 129; 247; 248; 249; 1000 ]

let buckets () =
  List.iter
    (fun (name, depth, expected) -> Alcotest.(check int) name expected (Reference.bucket ~depth name))
    [ ("a", 1, 23); ("b", 2, 2); ("foo", 42, 10) ];
  for number = 0 to 999 do
    let name = String.init (number mod 40) (fun at -> Char.chr (number * (at + 3) land 255)) in
    let depth = number mod 11 in
    Alcotest.(check int) name (Hashtbl.seeded_hash depth name mod 32) (Reference.bucket ~depth name)
  done

(* Directories of so many entries called "0", "1", … all with the value 0123456789: numbers from the real Irmin. *)
let directories () =
  List.iter
    (fun (count, expected) ->
      let rec filled tree at =
        if at = count then tree
        else filled (Reference.Tree.add tree [ string_of_int at ] (Bytes.of_string "0123456789")) (at + 1)
      in
      let tree = filled (Reference.Tree.empty (Reference.empty (Reference.init ""))) 0 in
      Alcotest.(check string) (string_of_int count) expected (Hash.to_hex (Reference.Tree.hash tree)))
    [ (0, "81e47a19e6b29b0a65b9591762ce5143ed30d0261e5d24a3201752506b20f15c");
      (1, "9673ca7ec827d885b74d4821ccdb580289221b0a3ce2cc22b01b5c36824b8970");
      (33, "75bd153674ded2800af1110d52603692e8cc10c207c41fd0387cb903a7b1ea54");
      (256, "d05973c709e77cc1305f1412665ad776c05638e871b35e565815cb51d3be2af6");
      (257, "bf9efbf6991599f467ef449ee7f7da8a2e34bee293853ea004950324fc2238bb");
      (1000, "0533d558ca14aa26a3170d0ed628b7e299cc7a4c737bcad662a450a3564f6126");
      (10000, "cef178ef4800230a85649f6c6dfe6675e77d0625048f956d3423dec341350259") ]

(* 1,000 entries below data/rolls/owner/current/index, committed as Genesis. *)
let commits () =
  let index = Reference.init "" in
  let rec filled context at =
    if at = 1000 then context
    else
      let key = [ "data"; "rolls"; "owner"; "current"; "index"; string_of_int at ] in
      filled (Reference.add context key (Bytes.of_string "\001\002\003\004\005\006")) (at + 1)
  in
  let hash = Reference.commit ~time:0L ~message:"Genesis" (filled (Reference.empty index) 0) in
  Alcotest.(check string) "a commit" "7465a76c9b522c265cf51a6544a81bf9d298acf374669ee82099a034c81a4614" (Hash.to_hex hash)

let texts () =
  let text = "CoVdWnWTqvYLikKj8koW6zpxCvK6FzZiD31YWEpD1UNAjWn7vhch" in
  let hash = Hash.of_b58check_exn text in
  Alcotest.(check string) "hex" "81e47a19e6b29b0a65b9591762ce5143ed30d0261e5d24a3201752506b20f15c" (Hash.to_hex hash);
  Alcotest.(check string) "text" text (Hash.to_b58check hash);
  Alcotest.(check bool) "wrong" true (Hash.of_b58check "CoVd" = None && Hash.of_string "short" = None)

let tests =
  [ Alcotest.test_case "BLAKE2b" `Quick blake2b;
    Alcotest.test_case "buckets" `Quick buckets;
    Alcotest.test_case "directories" `Quick directories;
    Alcotest.test_case "commits" `Quick commits;
    Alcotest.test_case "texts" `Quick texts ]
