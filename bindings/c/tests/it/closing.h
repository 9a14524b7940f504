#ifndef VARVITE_TEXT
#define VARVITE_TEXT

// The bytes of a text, without its final NUL.
static inline struct varvite_bytes varvite_text(const char *text) {
    struct varvite_bytes bytes = {(const uint8_t *)text, strlen(text)};
    return bytes;
}

#endif
