/** The command line is wrong. One line for the user, exit code 2. */
export class UsageError extends Error {}

/** The command was understood and could not be done. One line for the user, exit code 1. */
export class Failure extends Error {}

const REASONS: Record<string, string> = {
  ENOENT: 'there is no such file or folder',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EISDIR: 'it is a folder',
  ENOTDIR: 'part of the path is not a folder',
  ENOSPC: 'the disk is full',
  EROFS: 'the file system is read-only',
  ERR_FS_FILE_TOO_LARGE: 'it is larger than 2 GiB: split it',
};

/** What a failed system call means. */
export function systemReason(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return (code !== undefined ? REASONS[code] : undefined) ?? message;
}
