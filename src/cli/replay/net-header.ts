// struct virtio_net_hdr (virtio 1.4, 5.1.9): flags, gso_type, hdr_len, gso_size, csum_start, csum_offset,
// num_buffers. No offload is used here, so all of it is zero but the last field.

export const HEADER_BYTES = 12;
const NUM_BUFFERS = 10;

/** A driver sets num_buffers to zero (5.1.9.2.1). */
export function writeTransmitHeader(bytes: Uint8Array, at: number): void {
  bytes.fill(0, at, at + HEADER_BYTES);
}

/** A device sets num_buffers to 1 for a packet that lies in one buffer (5.1.9.4.1). */
export function writeReceivedHeader(bytes: Uint8Array, at: number): void {
  bytes.fill(0, at, at + HEADER_BYTES);
  setNumBuffers(bytes, at);
}

/** Only the field that differs between what a driver sends and what a device delivers. */
export function setNumBuffers(bytes: Uint8Array, at: number): void {
  bytes[at + NUM_BUFFERS] = 1;
}
