package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
)

// damagedFileEnd ends the name of a file of this node that could not be read and was set aside. The doctor tells of such files
// until the user has removed them.
const damagedFileEnd = ".damaged"

// setAside renames a file that cannot be read, and returns its new name. what says what the file holds.
func setAside(path, what string, why error, log *slog.Logger) (aside string, err error) {
	aside = path + damagedFileEnd
	if err := os.Rename(path, aside); err != nil {
		return "", fmt.Errorf("the file of %s, %s, is damaged, and cannot be set aside: %w", what, path, err)
	}
	log.Warn("a file is damaged, and was set aside", "of", what, "file", aside, "err", why)
	return aside, nil
}

// readOwnFile reads a file that an earlier run has written, if there is one. If decode returns an error, the file is set aside.
func readOwnFile(path, what string, log *slog.Logger, decode func([]byte) error) error {
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read the file of %s: %w", what, err)
	}
	if why := decode(b); why != nil {
		_, err = setAside(path, what, why, log)
	}
	return err
}
