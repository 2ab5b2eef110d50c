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
			return "", fmt.Errorf("read the passphrase: %w", plainly(err))
		}
		defer f.Close()
		info, err := f.Stat()
		if err == nil {
			err = publisher.CheckPrivate(c.PassphraseFile, info)
		}
		if err != nil {
			return "", err
		}
		in = f
	}
	line, err := bufio.NewReader(io.LimitReader(in, 4096)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the passphrase: %w", err)
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return "", fmt.Errorf("the first line of %s, which has to be the passphrase, is empty", fileName(c.PassphraseFile))
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
	// Standard output, which may go into a file, has the fingerprint alone.
	lines := "private key: " + c.File + " (keep it secret; tidings publish --key signs with it)\n" +
		"next key:    " + c.File + ".next (keep it in another place; tidings keygen --rotate replaces the private key by it)\n"
	if _, err := os.Stat(c.File + ".old"); c.Rotate && err == nil { // the key before may be lost
		lines += "old key:     " + c.File + ".old (signs nothing any more; delete it when readers have your items with the new key)\n"
	}
	if _, err = io.WriteString(s.err, lines); err != nil {
		return err
	}
	fingerprint := difference.Fingerprint(key.Public())
	if terminalOf(s.out).width == 0 {
		_, err = fmt.Fprintln(s.out, fingerprint)
	} else {
		_, err = fmt.Fprintf(s.out, "fingerprint: %s (for readers, who find it in tidings list -v)\nnext step:   tidings publish --key %s --metadata URL\n", fingerprint, c.File)
	}
	return err
}
