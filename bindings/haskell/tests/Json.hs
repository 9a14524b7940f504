-- | As much of JSON as the conformance files use. Truth values are 1 and 0.
module Json (Json (..), parse, member, memberOf, text, number, items, bytes, optional) where

import qualified Data.ByteString as B
import Data.Char (isDigit, isSpace)
import Numeric (readHex)

data Json = Null | Number Integer | Text String | Array [Json] | Object [(String, Json)]
  deriving (Eq, Show)

parse :: String -> Json
parse line = case value line of
  (it, rest) | all isSpace rest -> it
  (_, rest) -> error ("more than one value: " ++ take 20 rest)

value :: String -> (Json, String)
value input = case dropWhile isSpace input of
  'n' : 'u' : 'l' : 'l' : rest -> (Null, rest)
  't' : 'r' : 'u' : 'e' : rest -> (Number 1, rest)
  'f' : 'a' : 'l' : 's' : 'e' : rest -> (Number 0, rest)
  '"' : rest -> let (it, after) = string rest in (Text it, after)
  '[' : rest -> let (it, after) = separated ']' value rest in (Array it, after)
  '{' : rest -> let (it, after) = separated '}' pair rest in (Object it, after)
  rest@(first : _)
    | isDigit first -> let (digits, after) = span isDigit rest in (Number (read digits), after)
    | first == '-' -> let (digits, after) = span isDigit (drop 1 rest) in (Number (negate (read digits)), after)
  rest -> error ("not a value: " ++ take 20 rest)

pair :: String -> ((String, Json), String)
pair input = case dropWhile isSpace input of
  '"' : rest -> case string rest of
    (name, ':' : after) -> let (it, end) = value after in ((name, it), end)
    (name, _) -> error ("no value of " ++ name)
  rest -> error ("not a name: " ++ take 20 rest)

separated :: Char -> (String -> (a, String)) -> String -> ([a], String)
separated end one input = case dropWhile isSpace input of
  letter : rest | letter == end -> ([], rest)
  rest -> go rest
 where
  go rest = case one rest of
    (it, ',' : after) -> let (others, last_) = go after in (it : others, last_)
    (it, letter : after) | letter == end -> ([it], after)
    (_, after) -> error ("no end: " ++ take 20 after)

string :: String -> (String, String)
string input = case input of
  '"' : rest -> ("", rest)
  '\\' : 'u' : a : b : c : d : rest -> let (it, after) = string rest in (toEnum (hex [a, b, c, d]) : it, after)
  '\\' : letter : rest -> let (it, after) = string rest in (letter : it, after)
  letter : rest -> let (it, after) = string rest in (letter : it, after)
  "" -> error "a text without an end"

hex :: String -> Int
hex digits = case readHex digits of
  [(it, "")] -> it
  _ -> error ("not hexadecimal: " ++ digits)

member :: String -> Json -> Json
member name (Object members) = maybe (error ("no member " ++ name)) id (lookup name members)
member name _ = error ("no object with " ++ name)

-- | A member that need not be there.
memberOf :: String -> Json -> Maybe Json
memberOf name (Object members) = lookup name members
memberOf _ _ = Nothing

text :: Json -> String
text (Text it) = it
text it = error ("not a text: " ++ show it)

number :: Num a => Json -> a
number (Number it) = fromInteger it
number it = error ("not a number: " ++ show it)

items :: Json -> [Json]
items (Array it) = it
items it = error ("not an array: " ++ show it)

-- | Of hexadecimal digits.
bytes :: Json -> B.ByteString
bytes = B.pack . go . text
 where
  go (one : other : rest) = fromIntegral (hex [one, other]) : go rest
  go "" = []
  go _ = error "half a byte"

optional :: Json -> Maybe B.ByteString
optional Null = Nothing
optional it = Just (bytes it)
