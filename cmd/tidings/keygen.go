package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"tidings/difference"
	"tidings/internal/publisher"
)

// A keyFlags say how a publisher's key is locked.
type keyFlags struct {
	PassphraseFile string `placeholder:"FILE" help:"File whose first line is the passphrase of the key, or - for standard input. Default: the environment variable TIDINGS_PASSPHRASE."`
}

// passphrase is that of a key; "" if none was given.
func (c keyFlags) passphrase(in io.Reader) (string, error) {
	if c.PassphraseFile == "" {
		return os.Getenv("TIDINGS_PASSPHRASE"), nil
	}
	if c.PassphraseFile != "-" {
		f, err := os.Open(c.PassphraseFile)
		if err != nil {
			return "", fmt.Errorf("passphrase: %w", err)
		}
		defer f.Close()
		in = f
	}
	line, err := bufio.NewReader(io.LimitReader(in, 4096)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("passphrase: %w", err)
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return "", errors.New("the file of the passphrase is empty")
	}
	return line, nil
}

// ask is asked when a key turns out to be locked.
func (c keyFlags) ask(in io.Reader) publisher.Passphrase {
	return func(file string) (string, error) {
		words, err := c.passphrase(in)
		if err == nil && words == "" {
			err = fmt.Errorf("%s is encrypted: give its passphrase with --passphrase-file, or in TIDINGS_PASSPHRASE", file)
		}
		return words, err
	}
}

// A keygenCommand is "tidings keygen".
type keygenCommand struct {
	keyFlags `embed:""`
	Rotate   bool   `help:"Replace the key FILE by the next key, FILE.next. The old key is kept as FILE.old."`
	File     string `arg:"" help:"File for the key. The next key is written to FILE.next: keep that file elsewhere."`
}

// Run makes a publisher's key, and prints its fingerprint.
func (c *keygenCommand) Run(_ context.Context, s streams) error {
	if c.File == "" {
		return usagef("say in which file the key goes")
	}
	var key *publisher.Key
	var err error
	if c.Rotate {
		key, err = publisher.Rotate(c.File, c.ask(s.in))
	} else {
		var words string
		if words, err = c.passphrase(s.in); err == nil {
			key, err = publisher.Generate(c.File, words)
		}
	}
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintln(s.out, difference.Fingerprint(key.Public())); err != nil {
		return err
	}
	// Beside the fingerprint, which may go into a file.
	if _, err = fmt.Fprintf(s.err, "tidings: the key is in %s, and the next key in %[1]s.next: keep that one in another place\n", c.File); err == nil && terminalOf(s.out).width > 0 {
		_, err = fmt.Fprintf(s.out, "Then: tidings publish --key %s --metadata URL\n", c.File)
	}
	return err
}
