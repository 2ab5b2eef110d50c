package nodes

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Resident returns how much memory of a process is resident, in bytes.
func Resident(pid int) (int, error) {
	resident, _, err := memoryOf(pid)
	return resident, err
}

// Mapped returns how much of that is pages of files, the program's own among them,
// which the system may take back.
func Mapped(pid int) (int, error) {
	_, mapped, err := memoryOf(pid)
	return mapped, err
}

func memoryOf(pid int) (resident, mapped int, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, 0, err
	}
	var size int
	if _, err := fmt.Sscan(string(b), &size, &resident, &mapped); err != nil {
		return 0, 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return resident * os.Getpagesize(), mapped * os.Getpagesize(), nil
}

// tick is what the kernel counts the time of processes in, on all of Go's platforms.
const tick = 10 * time.Millisecond

// Spent returns how long a process has computed.
func Spent(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in brackets, may hold anything; utime and stime are the 12th and 13th
	// fields behind it.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("time of process %d: %d fields", pid, len(fields))
	}
	var sum int
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, fmt.Errorf("time of process %d: %w", pid, err)
		}
		sum += n
	}
	return time.Duration(sum) * tick, nil
}
