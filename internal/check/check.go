// Package check words what is wrong with a configuration.
//
// The Validate method of each Config checks its fields with the functions of this package, after it has
// replaced zero values by their defaults, and returns the first error. An error names the package, the
// field, its value and what is allowed: "overlay: WatchInterval is 1ms; it must be at least 1s".
package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// AtLeast returns an error if the value of a field, such as "overlay: WatchInterval", is less than least.
func AtLeast[T cmp.Ordered](field string, value, least T) error {
	if value >= least {
		return nil
	}
	return fmt.Errorf("%s is %v; it must be at least %v", field, value, least)
}

// Between returns an error if the value of a field is outside least to most.
func Between[T cmp.Ordered](field string, value, least, most T) error {
	if value >= least && value <= most { // false for NaN
		return nil
	}
	return fmt.Errorf("%s is %v; it must be from %v to %v", field, value, least, most)
}

// OneOf returns an error if the value of a field is none of the allowed ones.
func OneOf(field, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s is %q; it must be one of %s", field, value, strings.Join(allowed, ", "))
}

// That returns an error unless ok holds. The error consists of the field, what it is and what it must be.
func That(ok bool, field, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(field+" "+format, args...)
}
