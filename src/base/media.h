/* SPDX-License-Identifier: MIT */
/*
 * Formats of recordings that ffmpeg and ffprobe may read, for -format_whitelist: plain containers. Playlists and lists
 * of files (HLS, DASH, concat) are not among them, because they name other files, for example private files of the
 * user, if the author of the playlist knows their paths.
 */
#ifndef BASE_MEDIA_H
#define BASE_MEDIA_H

#define MEDIA_FORMATS                                                                                                  \
	"aac,ac3,aiff,amr,ape,asf,au,avi,caf,dts,eac3,flac,flv,matroska,mov,mp3,mpc,mpeg,mpegts,ogg,rm,tta,w64,wav,wv"

#endif
