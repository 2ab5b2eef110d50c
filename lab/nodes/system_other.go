//go:build !linux

package nodes

import (
	"errors"
	"time"
)

// errUnsupported says that this system cannot report what a process uses.
var errUnsupported = errors.New("only Linux reports the memory and CPU time of a process")

func Resident(int) (int, error) { return 0, errUnsupported }

func Mapped(int) (int, error) { return 0, errUnsupported }

func CPUTime(int) (time.Duration, error) { return 0, errUnsupported }
