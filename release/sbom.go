package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/licensedetect"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/licensedetect/local"
	"github.com/rs/zerolog"
)

// once asks for the licence of each version of a module once: most programs have most modules in common, and reading a licence takes its time.
type once struct {
	detector licensedetect.Detector
	known    map[string][]cdx.License
}

func newOnce() *once { return &once{local.NewDetector(zerolog.Nop()), map[string][]cdx.License{}} }

// Detect is of licensedetect.Detector.
func (o *once) Detect(path, version, dir string) ([]cdx.License, error) {
	key := path + "@" + version
	if _, found := o.known[key]; !found {
		licences, err := o.detector.Detect(path, version, dir)
		if err != nil {
			return nil, err
		}
		o.known[key] = licences
	}
	return o.known[key], nil
}

// bill is the SBOM of a program, from what Go has written into it: the modules that are really in it on its platform.
func (r release) bill(program string, licences licensedetect.Detector) ([]byte, error) {
	generator, err := bin.NewGenerator(program, bin.WithLogger(zerolog.Nop()), bin.WithIncludeStdlib(true), bin.WithVersionOverride(r.Version), bin.WithLicenseDetector(licences))
	if err != nil {
		return nil, fmt.Errorf("SBOM of %s: %w", filepath.Base(program), err)
	}
	bom, err := generator.Generate()
	if err != nil {
		return nil, fmt.Errorf("SBOM of %s: %w", filepath.Base(program), err)
	}
	bom.Metadata.Timestamp = r.Date.Format(time.RFC3339)
	bom.Metadata.Component.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("SBOM of %s: %w", filepath.Base(program), err)
	}
	return text.Bytes(), nil
}
