(* Source: RFC 7693. Words of 64 bits lie in bytes, which the compiler reads and writes without boxes. *)

external get : bytes -> int -> int64 = "%caml_bytes_get64u"
external set : bytes -> int -> int64 -> unit = "%caml_bytes_set64u"
external swap : int64 -> int64 = "%bswap_int64"

let little word = if Sys.big_endian then swap word else word

let start =
  [| 0x6a09e667f3bcc908L; 0xbb67ae8584caa73bL; 0x3c6ef372fe94f82bL; 0xa54ff53a5f1d36f1L; 0x510e527fade682d1L;
     0x9b05688c2b3e6c1fL; 0x1f83d9abfb41bd6bL; 0x5be0cd19137e2179L |]

let orders =
  [| [| 0; 1; 2; 3; 4; 5; 6; 7; 8; 9; 10; 11; 12; 13; 14; 15 |];
     [| 14; 10; 4; 8; 9; 15; 13; 6; 1; 12; 0; 2; 11; 7; 5; 3 |];
     [| 11; 8; 12; 0; 5; 2; 15; 13; 10; 14; 3; 6; 7; 1; 9; 4 |];
     [| 7; 9; 3; 1; 13; 12; 11; 14; 2; 6; 5; 10; 4; 0; 15; 8 |];
     [| 9; 0; 5; 7; 2; 4; 10; 15; 14; 1; 11; 12; 6; 8; 3; 13 |];
     [| 2; 12; 6; 10; 0; 11; 8; 3; 4; 13; 7; 5; 15; 14; 1; 9 |];
     [| 12; 5; 1; 15; 14; 13; 4; 10; 0; 7; 6; 3; 9; 2; 8; 11 |];
     [| 13; 11; 7; 14; 12; 1; 3; 9; 5; 0; 15; 4; 8; 6; 2; 10 |];
     [| 6; 15; 14; 9; 11; 3; 0; 8; 12; 2; 13; 7; 1; 4; 10; 5 |];
     [| 10; 2; 8; 4; 7; 6; 1; 5; 15; 11; 9; 14; 3; 12; 13; 0 |] |]

let[@inline] rotated word right = Int64.(logor (shift_right_logical word right) (shift_left word (64 - right)))

(* Mixes four of the words of `v` with two of the message: offsets are in bytes. *)
let mix v a b c d message x y =
  let va = Int64.(add (add (get v a) (get v b)) (little (get message x))) in
  let vd = rotated (Int64.logxor (get v d) va) 32 in
  let vc = Int64.add (get v c) vd in
  let vb = rotated (Int64.logxor (get v b) vc) 24 in
  let va = Int64.(add (add va vb) (little (get message y))) in
  let vd = rotated (Int64.logxor vd va) 16 in
  let vc = Int64.add vc vd in
  let vb = rotated (Int64.logxor vb vc) 63 in
  set v a va;
  set v b vb;
  set v c vc;
  set v d vd

let compress state v block ~counted ~is_last =
  for word = 0 to 7 do
    set v (8 * word) (get state (8 * word));
    set v (64 + (8 * word)) start.(word)
  done;
  set v 96 (Int64.logxor (get v 96) (Int64.of_int counted));
  if is_last then set v 112 (Int64.lognot (get v 112));
  for round = 0 to 11 do
    let order = orders.(round mod 10) in
    let at it = 8 * order.(it) in
    mix v 0 32 64 96 block (at 0) (at 1);
    mix v 8 40 72 104 block (at 2) (at 3);
    mix v 16 48 80 112 block (at 4) (at 5);
    mix v 24 56 88 120 block (at 6) (at 7);
    mix v 0 40 80 120 block (at 8) (at 9);
    mix v 8 48 88 96 block (at 10) (at 11);
    mix v 16 56 64 104 block (at 12) (at 13);
    mix v 24 32 72 112 block (at 14) (at 15)
  done;
  for word = 0 to 7 do
    let at = 8 * word in
    set state at Int64.(logxor (get state at) (logxor (get v at) (get v (64 + at))))
  done

let digest ?(size = 32) text =
  if size < 1 || size > 64 then invalid_arg "Blake2b.digest: a digest has 1 to 64 bytes";
  let state = Bytes.create 64 and v = Bytes.create 128 and block = Bytes.create 128 in
  Array.iteri (fun word start -> set state (8 * word) start) start;
  set state 0 (Int64.logxor (get state 0) (Int64.of_int (0x01010000 lor size)));
  let length = String.length text in
  let rec go at =
    let rest = length - at in
    if rest > 128 then begin
      Bytes.blit_string text at block 0 128;
      compress state v block ~counted:(at + 128) ~is_last:false;
      go (at + 128)
    end
    else begin
      Bytes.fill block 0 128 '\000';
      Bytes.blit_string text at block 0 rest;
      compress state v block ~counted:length ~is_last:true
    end
  in
  go 0;
  for word = 0 to 7 do
    set state (8 * word) (little (get state (8 * word)))
  done;
  Bytes.sub_string state 0 size
