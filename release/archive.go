package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
)

// file is what an archive holds.
type file struct {
	Name string // from the archive's root, with slashes
	Mode fs.FileMode
	Data []byte
}

// archive writes files as the name's ending says, in their order. All are of root and of that time, so that the same files are the same bytes.
func archive(w io.Writer, name string, files []file, at time.Time) error {
	if strings.HasSuffix(name, ".zip") {
		return zipped(w, files, at)
	}
	// The header of gzip has neither a name nor a time.
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := tarred(compressed, files, at); err != nil {
		return err
	}
	return compressed.Close()
}

func tarred(w io.Writer, files []file, at time.Time) error {
	to := tar.NewWriter(w)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Size: int64(len(f.Data)), Mode: int64(f.Mode.Perm()), ModTime: at, Format: tar.FormatUSTAR}
		if err := to.WriteHeader(header); err != nil {
			return fmt.Errorf("archive %s: %w", f.Name, err)
		}
		if _, err := to.Write(f.Data); err != nil {
			return fmt.Errorf("archive %s: %w", f.Name, err)
		}
	}
	return to.Close()
}

func zipped(w io.Writer, files []file, at time.Time) error {
	to := zip.NewWriter(w)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: at}
		header.SetMode(f.Mode)
		one, err := to.CreateHeader(header)
		if err != nil {
			return fmt.Errorf("archive %s: %w", f.Name, err)
		}
		if _, err := one.Write(f.Data); err != nil {
			return fmt.Errorf("archive %s: %w", f.Name, err)
		}
	}
	return to.Close()
}
