// What the configuration files of the released model say, for weight files that come without them. Sources: spec/text.md §3, §4, §5.1;
// spec/vae.md appendices A and B. JSON documents of the same form as the official files.
#pragma once

namespace tritium {

const char* released_text_config();
const char* released_video_vae_config();
const char* released_video_vae_source();
const char* released_audio_vae_config();

}  // namespace tritium
