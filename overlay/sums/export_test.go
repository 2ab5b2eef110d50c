package sums

// VersionOf returns the version of a value, for tests that forge values.
var VersionOf = versionOf
