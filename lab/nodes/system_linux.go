package nodes

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Resident returns the resident memory of a process in bytes.
func Resident(pid int) (int, error) {
	resident, _, err := memoryOf(pid)
	return resident, err
}

// Mapped returns how much of that is pages of files, including the program itself, which the system
// may take back.
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

// CPUTime returns the CPU time of a process, with a resolution of nanoseconds.
func CPUTime(pid int) (time.Duration, error) {
	var t unix.Timespec
	// The CPU clock of a process, as clock_getcpuclockid(3) derives it from the process id.
	const scheduled = 2
	if err := unix.ClockGettime(int32(^pid)<<3|scheduled, &t); err != nil {
		return 0, fmt.Errorf("time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
