# ComfyUI's and MiniMax's dialects: graphs and requests as pure functions, routes before a service in memory. No sockets, no engine.
tritium_test(api_comfy_graphs LABEL api SOURCES comfy_expression_test.cpp comfy_names_test.cpp comfy_references_test.cpp comfy_refusals_test.cpp
  comfy_translate_test.cpp LINKS tritium_server_comfy nlohmann_json::nlohmann_json)
tritium_test(api_comfy_routes LABEL api SOURCES comfy_files_test.cpp comfy_prompt_test.cpp comfy_queue_test.cpp comfy_socket_test.cpp
  LINKS tritium_server_comfy tritium_test_jobs nlohmann_json::nlohmann_json)
tritium_test(api_minimax LABEL api SOURCES minimax_callback_test.cpp minimax_create_test.cpp minimax_tasks_test.cpp
  LINKS tritium_server_minimax tritium_test_jobs nlohmann_json::nlohmann_json)
