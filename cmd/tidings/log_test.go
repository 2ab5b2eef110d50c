package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestALogMessageIsOneLine(t *testing.T) {
	var out bytes.Buffer
	newLog(&out, "info").Warn("no answer", "err", errors.Join(errors.New("one"), errors.New("two")), "text", "a\nb", "n", 3)
	if got, want := out.String(), `err="one; two" text="a; b" n=3`+"\n"; !strings.HasSuffix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}
